"""Ranges of offsets: how much of them a batch takes, and which tasks read them. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from apogeemq.errors import ConfigError
from apogeemq.model.queues import MessageQueue

# A task costs about 20 ms of CPU time, most of it Spark's own, and takes a microsecond a message: smaller ranges share
# one. That goes further where tasks are many: few are not made fewer, as what follows the read may take longer than the
# read.
_TASK_AT_LEAST: Final = 10_000
_ONE_OF_MANY_AT_LEAST: Final = 100_000
_FEW_TASKS: Final = 8
MAX_PARTITIONS: Final = 100_000


class OffsetRange(NamedTuple):
    """Messages of one queue, from `start` to before `end`."""

    topic: str
    broker: str
    queue_id: int
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start

    @property
    def queue(self) -> MessageQueue:
        return MessageQueue(self.broker, self.queue_id, self.topic)


def range_of(queue: MessageQueue, start: int, end: int) -> OffsetRange:
    return OffsetRange(queue.topic, queue.broker_name, queue.queue_id, start, end)


# -- limits --------------------------------------------------------------------------------------------------


def shares(wanted: Sequence[int], limit: int, turn: int = 0) -> list[int]:
    """`limit` divided in proportion to what each wants, all of it; but one for each first, so that no queue waits for
    ever behind longer ones. Where it is not even enough for that, they take turns."""
    if sum(wanted) <= limit:
        return list(wanted)
    waiting = [index for index, one in enumerate(wanted) if one]
    given = [0] * len(wanted)
    first = turn * limit % len(waiting)
    for index in (waiting[first:] + waiting[:first])[:limit]:
        given[index] = 1
    if len(waiting) >= limit:
        return given
    rest, total = limit - len(waiting), sum(wanted) - len(waiting)
    parts = {index: divmod((wanted[index] - 1) * rest, total) for index in waiting}
    for index, (whole, _) in parts.items():
        given[index] += whole
    by_remainder = sorted(waiting, key=lambda index: (-parts[index][1], index))
    for index in by_remainder[: limit - sum(given)]:
        given[index] += 1
    return given


def limited(ranges: Sequence[OffsetRange], max_messages: int, turn: int = 0) -> list[OffsetRange]:
    """The beginnings of ranges, together no more than `max_messages`."""
    given = shares([one.size for one in ranges], max_messages, turn)
    return [one._replace(end=one.start + size) for one, size in zip(ranges, given, strict=True)]


def limited_bytes(
    ranges: Sequence[OffsetRange], mean_sizes: Mapping[MessageQueue, float], max_bytes: int, turn: int = 0
) -> list[OffsetRange]:
    """The beginnings of ranges, together about `max_bytes`; one message at least, so that it goes on."""
    total_bytes = sum(one.size * mean_sizes.get(one.queue, 1.0) for one in ranges)
    if total_bytes <= max_bytes:
        return list(ranges)
    return limited(ranges, max(1, int(sum(one.size for one in ranges) * max_bytes / total_bytes)), turn)


# -- partitions ----------------------------------------------------------------------------------------------


def planned(
    ranges: Iterable[OffsetRange], min_partitions: int = 1, max_records: int | None = None
) -> list[tuple[OffsetRange, ...]]:
    """What each task reads.

    Every offset once; no partition of more than `max_records`; no fewer partitions than `min_partitions`, as far as
    there are messages. Otherwise a queue is one partition, and those of few messages share one.
    """
    pieces = _cut([one for one in ranges if one.size > 0], min_partitions, max_records)
    join_below = _worth_a_task(sum(piece.size for piece in pieces))
    large = [piece for piece in pieces if piece.size >= join_below]
    small = [piece for piece in pieces if piece.size < join_below]
    bin_count = max(min_partitions - len(large), -(-sum(piece.size for piece in small) // join_below))
    joined = _joined(small, bin_count, max_records)
    return sorted([*((piece,) for piece in large), *joined])


def _worth_a_task(message_count: int) -> int:
    """How many messages, of all that there are, deserve a task of their own."""
    return min(max(message_count // _FEW_TASKS, _TASK_AT_LEAST), _ONE_OF_MANY_AT_LEAST)


def _cut(ranges: Sequence[OffsetRange], min_partitions: int, max_records: int | None) -> list[OffsetRange]:
    parts = [1 if max_records is None else -(-one.size // max_records) for one in ranges]
    if max(sum(parts), min(min_partitions, sum(one.size for one in ranges))) > MAX_PARTITIONS:
        raise ConfigError(
            f"more than {MAX_PARTITIONS} partitions: minPartitions is too large or maxRecordsPerPartition too small"
        )
    # One more cut where the pieces are longest, until there are enough.
    longest = [(-one.size / part, index) for index, (one, part) in enumerate(zip(ranges, parts, strict=True))]
    heapq.heapify(longest)
    missing = min_partitions - sum(parts)
    while missing > 0 and longest:
        _, index = heapq.heappop(longest)
        if parts[index] < ranges[index].size:
            parts[index] += 1
            missing -= 1
            heapq.heappush(longest, (-ranges[index].size / parts[index], index))
    return [piece for one, part in zip(ranges, parts, strict=True) for piece in _pieces(one, part)]


def _pieces(whole: OffsetRange, count: int) -> list[OffsetRange]:
    edges = [whole.start + whole.size * number // count for number in range(count + 1)]
    return [whole._replace(start=start, end=end) for start, end in pairwise(edges)]


def _joined(pieces: Sequence[OffsetRange], bin_count: int, max_records: int | None) -> list[tuple[OffsetRange, ...]]:
    """The longest first, each to whom has least."""
    bins: list[list[OffsetRange]] = [[] for _ in range(min(bin_count, len(pieces)))]
    least = [(0, index) for index in range(len(bins))]
    for piece in sorted(pieces, key=lambda piece: (-piece.size, piece)):
        count, index = least[0]
        if max_records is not None and count and count + piece.size > max_records:
            heapq.heappush(least, (piece.size, len(bins)))
            bins.append([piece])
        else:
            bins[index].append(piece)
            heapq.heapreplace(least, (count + piece.size, index))
    return [tuple(sorted(one)) for one in bins]
