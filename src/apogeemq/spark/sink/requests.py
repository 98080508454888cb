"""Encoded rows, put together into requests: those of one queue, in their order, up to a size and a number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from apogeemq.model.flags import COMPRESSED
from apogeemq.protocol.compression import FLAGS, compress
from apogeemq.spark.sink.arrow_texts import starts
from apogeemq.spark.sink.ids import Ids
from apogeemq.spark.sink.rows import EncodedRows
from apogeemq.spark.sink.write_options import WriteOptions

_HEAD_SIZE: Final = 20
_LENGTH_SIZE: Final = 2
ANY_QUEUE: Final = -1
_GROUP_STEP: Final = 2**20  # more than a topic has queues


class Request(NamedTuple):
    """Messages a broker takes all or none of. `queue` is the number of a queue in the list of its topic's."""

    topic: str
    queue: int
    body: bytes
    ids: Ids
    properties: str | None = None  # of a message that is alone; None: a batch
    system_flag: int = 0

    @property
    def row_count(self) -> int:
        return len(self.ids)


def requests_of(rows: EncodedRows, options: WriteOptions, queue_count: Callable[[str], int]) -> Iterator[Request]:
    """`queue_count` tells how many queues a topic has; asked only where keys choose among them."""
    if rows.topic_numbers is None and rows.key_hashes is None:
        yield from _of_group(rows, options, rows.topics[0], ANY_QUEUE)
        return
    groups, queues = _groups(rows, queue_count)
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    if (order[1:] < order[:-1]).any():
        rows = _taken(rows, order)
    bounds = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), len(ordered)]
    for first, end in pairwise(bounds):
        number = int(order[first])
        topic = rows.topics[int(groups[number]) // _GROUP_STEP]
        yield from _of_group(rows, options, topic, int(queues[number]), first, end)


def _groups(
    rows: EncodedRows, queue_count: Callable[[str], int]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """A number for each row, equal for those that may share a request; and the number of its queue."""
    count = len(rows.ids)
    topics = rows.topic_numbers if rows.topic_numbers is not None else np.zeros(count, dtype=np.int64)
    queues = np.full(count, ANY_QUEUE, dtype=np.int64)
    if rows.key_hashes is not None and rows.has_key is not None:
        counts = np.array([queue_count(topic) for topic in rows.topics], dtype=np.int64)
        chosen = np.abs(rows.key_hashes) % counts[topics]
        queues = np.where(rows.has_key, chosen, ANY_QUEUE)
    return topics * _GROUP_STEP + queues + 1, queues


def _taken(rows: EncodedRows, order: npt.NDArray[np.int64]) -> EncodedRows:
    entries = rows.entries.take(order)
    return rows._replace(
        entries=entries,
        places=starts(entries),
        body_sizes=rows.body_sizes[order],
        ids=rows.ids[order],
        alone=rows.alone[order] if rows.alone is not None else None,
    )


def _of_group(
    rows: EncodedRows, options: WriteOptions, topic: str, queue: int, first: int = 0, end: int | None = None
) -> Iterator[Request]:
    """Of rows that follow each other and go to one queue, or to any."""
    end = len(rows.ids) if end is None else end
    lonely = np.flatnonzero(rows.alone[first:end]) + first if rows.alone is not None else ()
    for number in lonely:
        yield from _batches(rows, options, topic, queue, first, int(number))
        yield _alone(rows, options, topic, queue, int(number))
        first = int(number) + 1
    yield from _batches(rows, options, topic, queue, first, end)


def _batches(
    rows: EncodedRows, options: WriteOptions, topic: str, queue: int, first: int, end: int
) -> Iterator[Request]:
    places, data = rows.places, memoryview(rows.entries.buffers()[2] or b"")
    while first < end:
        full = int(np.searchsorted(places, places[first] + options.batch_bytes, side="right")) - 1
        last = min(max(full, first + 1), first + options.batch_messages, end)
        yield Request(topic, queue, bytes(data[places[first] : places[last]]), rows.ids[first:last])
        first = last


def _alone(rows: EncodedRows, options: WriteOptions, topic: str, queue: int, number: int) -> Request:
    entry: bytes = rows.entries[number].as_py()
    body_end = _HEAD_SIZE + int(rows.body_sizes[number])
    body, properties = entry[_HEAD_SIZE:body_end], entry[body_end + _LENGTH_SIZE :].decode()
    system_flag = 0
    if options.is_compressed and len(body) >= options.compress_above:
        packed = compress(body, options.compression, options.compression_level)
        if len(packed) < len(body):
            body, system_flag = packed, COMPRESSED | FLAGS[options.compression]
    return Request(topic, queue, body, rows.ids[number : number + 1], properties, system_flag)
