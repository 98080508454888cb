"""Filters of a query that spare reading: whole queues, offsets, times and tags. Pure.

They only ever narrow what is read. Spark looks at every row again, so what is not understood here costs time, and
nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from apogeemq.filter.subscriptions import TAG_SEPARATOR, split_tags
from apogeemq.model.queues import MessageQueue
from apogeemq.model.subscriptions import EVERY_TAG
from apogeemq.model.topics import is_system_topic
from apogeemq.spark.options import INT64_MAX
from apogeemq.spark.source.message_filter import MessageFilter
from apogeemq.spark.source.ranges import OffsetRange

# Times are looked up in queues as if they only ever grew. A broker's clock that was set back by less than this is
# allowed for.
CLOCK_MARGIN_MS: Final = 60_000

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OF_QUEUE: Final[Mapping[str, Callable[[MessageQueue], str | int]]] = {
    "topic": lambda queue: queue.topic,
    "broker": lambda queue: queue.broker_name,
    "queue_id": lambda queue: queue.queue_id,
}
_COMPARISONS: Final[Mapping[type[Filter], Callable[[Any, Any], bool]]] = {
    EqualTo: lambda one, other: bool(one == other),
    EqualNullSafe: lambda one, other: bool(one == other),
    GreaterThan: lambda one, other: bool(one > other),
    GreaterThanOrEqual: lambda one, other: bool(one >= other),
    LessThan: lambda one, other: bool(one < other),
    LessThanOrEqual: lambda one, other: bool(one <= other),
    StringStartsWith: lambda one, other: bool(one.startswith(other)),
    StringEndsWith: lambda one, other: bool(one.endswith(other)),
    StringContains: lambda one, other: other in one,
}


class Span(msgspec.Struct, frozen=True):
    """Numbers from `least` to `most`, both of them."""

    least: int = 0
    most: int = INT64_MAX

    def met(self, other: Span) -> Span:
        return Span(max(self.least, other.least), min(self.most, other.most))


ALL: Final = Span()


class Pushed(msgspec.Struct, frozen=True):
    """What the filters of a query say, all of them together."""

    of_queue: tuple[Filter, ...] = ()
    offsets: Span = ALL
    times_ms: Span = ALL
    tags: frozenset[str] | None = None  # None: any, or none

    @classmethod
    def read(cls, filters: Iterable[Filter]) -> Pushed:
        pushed = cls()
        for one in filters:
            pushed = pushed._and(one)
        return pushed

    def _and(self, one: Filter) -> Pushed:
        column = _column(one)
        if column in _OF_QUEUE:
            return msgspec.structs.replace(self, of_queue=(*self.of_queue, one))
        if column == "queue_offset":
            return msgspec.structs.replace(self, offsets=self.offsets.met(_span(one, _whole)))
        if column == "store_timestamp":
            return msgspec.structs.replace(self, times_ms=self.times_ms.met(_span(one, _time_ms)))
        if column == "tags" and (tags := _tags(one)) is not None:
            return msgspec.structs.replace(self, tags=tags if self.tags is None else self.tags & tags)
        return self

    def takes(self, queue: MessageQueue) -> bool:
        """False only when no message of the queue can pass."""
        return all(holds(one, _OF_QUEUE[_column(one)](queue)) is not False for one in self.of_queue)

    def narrowed(self, wanted: OffsetRange) -> OffsetRange:
        start = max(wanted.start, self.offsets.least)
        return wanted._replace(start=start, end=max(start, min(wanted.end, self.offsets.most + 1)))

    @property
    def search_from_ms(self) -> int | None:
        """Nothing before the first message of this time or later can pass; None: anything may."""
        least = self.times_ms.least - CLOCK_MARGIN_MS
        return least if self.times_ms.least > 0 and least > 0 else None

    @property
    def search_to_ms(self) -> int | None:
        """Nothing from the first message of this time or later on can pass."""
        return self.times_ms.most + CLOCK_MARGIN_MS + 1 if self.times_ms.most < INT64_MAX else None

    def filter(self, wanted: MessageFilter, topics: Iterable[str]) -> MessageFilter:
        """With the tags, where a broker can look at them as well: it has no hashes of tags for the system's topics."""
        if self.tags is None or wanted.sql or any(map(is_system_topic, topics)):
            return wanted
        tags = self.tags if wanted.tags == EVERY_TAG else self.tags & split_tags(wanted.tags)
        if not tags or not all(map(_is_plain, tags)):
            return wanted
        return MessageFilter(tags=f" {TAG_SEPARATOR} ".join(sorted(tags)))


def holds(one: Filter, value: str | int) -> bool | None:
    """Whether a value that is not null passes; None when that is not known here."""
    if isinstance(one, Not):
        inner = holds(one.child, value)
        return None if inner is None else not inner
    if isinstance(one, IsNull | IsNotNull):
        return isinstance(one, IsNotNull)
    if isinstance(one, In):
        return value in one.value if all(type(other) is type(value) for other in one.value) else None
    compare = _COMPARISONS.get(type(one))
    other = getattr(one, "value", None)
    return compare(value, other) if compare is not None and type(other) is type(value) else None


def _column(one: Filter) -> str:
    """Empty for one that is not of a column alone."""
    inner = one.child if isinstance(one, Not) else one
    path: tuple[str, ...] = getattr(inner, "attribute", ())
    return path[0] if len(path) == 1 else ""


def _span(one: Filter, number: Callable[[object], int | None]) -> Span:
    """Of numbers that may pass."""
    if isinstance(one, In):
        numbers = [found for value in one.value if (found := number(value)) is not None]
        return Span(min(numbers), max(numbers)) if numbers and len(numbers) == len(one.value) else ALL
    found = number(getattr(one, "value", None))
    if found is None:
        return ALL
    if isinstance(one, EqualTo | EqualNullSafe):
        return Span(found, found)
    if isinstance(one, GreaterThan | GreaterThanOrEqual):
        return Span(least=found)
    return Span(most=found) if isinstance(one, LessThan | LessThanOrEqual) else ALL


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _time_ms(value: object) -> int | None:
    """Rounded down; the margin is larger than that."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return max(0, (value - _EPOCH) // timedelta(milliseconds=1))


def _tags(one: Filter) -> frozenset[str] | None:
    if isinstance(one, EqualTo | EqualNullSafe):
        return frozenset((one.value,)) if isinstance(one.value, str) else None
    if isinstance(one, In) and all(isinstance(value, str) for value in one.value):
        return frozenset(one.value)
    return None


def _is_plain(tag: str) -> bool:
    """Whether it can stand in an expression and means itself there."""
    return tag != EVERY_TAG and TAG_SEPARATOR not in tag and split_tags(f"{tag} {TAG_SEPARATOR} ") == {tag}
