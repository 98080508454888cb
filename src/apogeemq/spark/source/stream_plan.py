"""How far the next micro-batch reads. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from apogeemq.model.queues import MessageQueue
from apogeemq.spark.source.offsets import Offsets, queue_order
from apogeemq.spark.source.ranges import OffsetRange, limited, limited_bytes, range_of
from apogeemq.spark.source.read_options import Limits

MeanSizes: TypeAlias = Callable[[list[OffsetRange]], Mapping[MessageQueue, float]]


def pending(positions: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int]) -> list[OffsetRange]:
    """What there is to read of the queues that are known, where it is anything. A queue that ends before its position
    was made anew."""
    return [
        range_of(queue, positions[queue], ends[queue])
        for queue in sorted(positions, key=queue_order)
        if queue in ends and positions[queue] != ends[queue]
    ]


def up_to(latest: Mapping[MessageQueue, int], positions: Mapping[MessageQueue, int], target: Offsets | None) -> Offsets:
    """The ends of queues, no further than a target that was set; queues that have none there stay where they are."""
    if target is None:
        return dict(latest)
    ends: Offsets = {}
    for queue, end in latest.items():
        position = positions.get(queue)
        if queue not in target:
            ends[queue] = end if position is None else position
        elif position is None or end < position:
            ends[queue] = min(end, target[queue])
        else:
            ends[queue] = max(position, min(end, target[queue]))
    return ends


def admitted(ranges: list[OffsetRange], limits: Limits, mean_sizes: MeanSizes, turn: int = 0) -> list[OffsetRange]:
    """The beginnings of ranges that a micro-batch takes; `turn` is its number."""
    if limits.max_messages is not None:
        ranges = limited(ranges, limits.max_messages, turn)
    if limits.max_bytes is not None:
        ranges = limited_bytes(ranges, mean_sizes(ranges), limits.max_bytes, turn)
    return ranges


def is_worth_a_batch(count: int, limits: Limits, since_last_ms: float | None) -> bool:
    """Whether so many new messages are enough, or have waited for long enough. The first batch does not wait."""
    if limits.min_messages is None or count >= limits.min_messages or since_last_ms is None:
        return True
    return since_last_ms >= limits.max_delay_ms
