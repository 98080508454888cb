"""Ranges of offsets as Arrow batches, read by one task of an executor straight from the brokers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from apogeemq.blocking.background import background_loop
from apogeemq.errors import ApogeeError, ProtocolError
from apogeemq.filter.subscriptions import subscription_of
from apogeemq.spark.cluster import Cluster, cluster_of
from apogeemq.spark.connection import Connection
from apogeemq.spark.reading.chunks import Chunk, ChunkFeed
from apogeemq.spark.reading.direct_pulls import DirectPulls
from apogeemq.spark.reading.losses import Losses
from apogeemq.spark.reading.pulling import SlotPuller
from apogeemq.spark.reading.record_batches import decode
from apogeemq.spark.reading.slices import slices_of
from apogeemq.spark.reading.slots import PullSizes
from apogeemq.spark.source.data_loss import LossRule
from apogeemq.spark.source.message_filter import MessageFilter
from apogeemq.spark.source.ranges import OffsetRange
from apogeemq.spark.worker_memory import settle_worker


def read_ranges(
    connection: Connection,
    group: str,
    ranges: Sequence[OffsetRange],
    schema: pa.Schema,
    wanted: MessageFilter,
    *,
    fails_on_data_loss: bool = True,
) -> Iterator[Any]:
    """Batches of a schema, for each queue in the order of offsets. Closing it early ends the pulls.

    Raises DataLost, unless told to go on; ApogeeError when a broker does not answer, for all attempts.
    """
    settle_worker()
    cluster = cluster_of(connection, group)
    losses = Losses(cluster, LossRule(fails_on_data_loss))
    tags = subscription_of("", wanted.tags).tags_set or None
    tell_missing = losses.report_missing if wanted.is_everything else None
    for chunk in _chunks(cluster, ranges, wanted):
        for loss in chunk.losses:
            losses.report(loss)
        for batch in _decoded(chunk, schema, tags, tell_missing):
            yield from slices_of(batch)


def _chunks(cluster: Cluster, ranges: Sequence[OffsetRange], wanted: MessageFilter) -> Iterator[Chunk]:
    """Long ranges of which everything is wanted are read directly, as far as all goes well; the others, and what is
    left of those, by the loop, which knows what to do when it does not."""
    sizes = PullSizes(is_filtered=not wanted.is_everything)
    rest = list(ranges)
    if wanted.is_everything:
        direct = DirectPulls(cluster, sizes)
        rest = []
        for one in ranges:
            rest.append((yield from direct.read(one)))
    feed = ChunkFeed(SlotPuller(cluster, wanted, sizes), [one for one in rest if one.size], sizes)
    background = background_loop()
    background.run(feed.start)
    try:
        while (chunk := background.run(feed.take)) is not None:
            yield chunk
    finally:
        with contextlib.suppress(ApogeeError, RuntimeError):  # the process is ending: everything is stopped
            background.begin(feed.stop)


def _decoded(
    chunk: Chunk, schema: Any, tags: frozenset[str] | None, tell_missing: Callable[[OffsetRange], None] | None
) -> Iterator[Any]:
    try:
        yield from decode(chunk.pulls, schema, tags, tell_missing=tell_missing)
    except ProtocolError as error:
        spans = "; ".join(f"{pull.span}" for pull in chunk.pulls[:3])
        error.add_note(f"among the records of {spans}{' …' if len(chunk.pulls) > 3 else ''}")
        raise
