"""The source without a Spark session: readers are asked as Spark asks them, and what they plan is read right here."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, cast

from pyspark.sql.datasource import Filter, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from apogeemq.spark.first_batch import beginning_of
from apogeemq.spark.source.batch_reader import BatchReader
from apogeemq.spark.source.partition import MessagePartition
from apogeemq.spark.source.read_options import ReadOptions
from apogeemq.spark.source.schema import arrow_schema, spark_schema
from apogeemq.spark.source.stream_reader import StreamReader
from tests.peers.process import wait_for
from tests.spark.worlds import World

# Enough for a server that is busy, not for one that is gone: tests of what is gone do not wait half a minute.
PATIENCE = {"retries": "4", "retryDelayMs": "100"}

Offset = dict[str, Any]


def options_of(world: World, given: Mapping[str, str]) -> ReadOptions:
    return ReadOptions.read({**world.options, **PATIENCE, **given})


def bodies(partitions: Iterable[InputPartition], reader: Any) -> Counter[bytes]:
    """Of what the partitions hold; they are read as if they had travelled."""
    found: Counter[bytes] = Counter()
    for partition in partitions:
        there = pickle.loads(pickle.dumps((reader, partition)))
        for batch in there[0].read(there[1]):
            found.update(batch.column("body").to_pylist())
    return found


def planned_batch(world: World, filters: Iterable[Filter] = (), /, **given: str) -> tuple[Any, list[MessagePartition]]:
    options = options_of(world, given)
    reader = BatchReader(options, arrow_schema(spark_schema(options.columns)))
    wanted = list(filters)
    assert list(reader.pushFilters(wanted)) == wanted, "Spark has to look at every row again"
    return reader, cast(list[MessagePartition], reader.partitions())


def read_batch(world: World, filters: Iterable[Filter] = (), /, **given: str) -> Counter[bytes]:
    reader, partitions = planned_batch(world, filters, **given)
    return bodies(partitions, reader)


class Stream:
    """A query as Spark leads it: it keeps the offsets, as text, and asks for one batch after the other.

    A new one has begun where its options say, as if there had been nothing to read yet.
    """

    def __init__(self, world: World, checkpoint: Offset | None = None, /, **given: str) -> None:
        options = options_of(world, given)
        self.reader = _stream_reader(options)
        self.position: Offset = checkpoint if checkpoint is not None else _beginning(_stream_reader(options))
        self.batches = 0

    def batch(self, limit: ReadLimit | None = None) -> Counter[bytes] | None:
        """What the next batch brings; None when there is none."""
        limit = limit if limit is not None else self.reader.getDefaultReadLimit()
        end = _kept(self.reader.latestOffset(self.position, limit))
        if json.dumps(end) == json.dumps(self.position):
            return None
        found = bodies(self.reader.partitions(self.position, end), self.reader)
        self.position = end
        self.reader.commit(end)
        self.batches += 1
        return found

    def everything(self) -> Counter[bytes]:
        """Batch by batch, until there is nothing more."""
        found: Counter[bytes] = Counter()
        while (some := self.batch()) is not None:
            found += some
        return found

    def all_at_once(self) -> Counter[bytes] | None:
        return self.batch(ReadAllAvailable())


def _stream_reader(options: ReadOptions) -> StreamReader:
    return StreamReader(options, arrow_schema(spark_schema(options.columns)))


def _beginning(reader: StreamReader) -> Offset:
    first = beginning_of(reader.latestOffset(reader.initialOffset(), ReadAllAvailable()))
    assert first is not None
    return _kept(first)


def read_until(stream: Stream, count: int) -> Counter[bytes]:
    """So many messages at least."""
    found: Counter[bytes] = Counter()

    def has_all() -> bool:
        found.update(stream.everything())
        return found.total() >= count

    wait_for(has_all, f"{count} messages")
    return found


def _kept(offset: Offset) -> Offset:
    kept: Offset = json.loads(json.dumps(offset))
    return kept


def numbered(count: int, word: str = "m") -> list[bytes]:
    return [b"%s %d" % (word.encode(), number) for number in range(count)]


def each_once(sent: Iterable[bytes]) -> Counter[bytes]:
    return Counter(sent)
