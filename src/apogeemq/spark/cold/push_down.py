"""Filters of a query that a scan can answer itself: on the topic and on the store time. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from apogeemq.spark.cold.wanted import Wanted

_TOPIC: Final = ("topic",)
_STORE_TIME: Final = ("store_timestamp",)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def narrowed(wanted: Wanted, filters: Iterable[Filter]) -> tuple[Wanted, list[Filter]]:
    """What is wanted after filters, and those that are left for Spark."""
    rest: list[Filter] = []
    for one in filters:
        less = _narrowed_by(wanted, one)
        if less is None:
            rest.append(one)
        else:
            wanted = less
    return wanted, rest


def _narrowed_by(wanted: Wanted, one: Filter) -> Wanted | None:
    match one:
        case EqualTo(path, str(topic)) | EqualNullSafe(path, str(topic)) if path == _TOPIC:
            return _only_topics(wanted, frozenset((topic,)))
        case In(path, topics) if path == _TOPIC and all(isinstance(topic, str) for topic in topics):
            return _only_topics(wanted, frozenset(topics))
        case StringStartsWith(path, prefix) if path == _TOPIC:
            return msgspec.structs.replace(wanted, pushed_prefixes=(*wanted.pushed_prefixes, prefix))
        case EqualTo(path, datetime() as time) | EqualNullSafe(path, datetime() as time) if path == _STORE_TIME:
            return _between(wanted, _at_or_after(time), _after(time))
        case GreaterThan(path, datetime() as time) if path == _STORE_TIME:
            return _between(wanted, _after(time), None)
        case GreaterThanOrEqual(path, datetime() as time) if path == _STORE_TIME:
            return _between(wanted, _at_or_after(time), None)
        case LessThan(path, datetime() as time) if path == _STORE_TIME:
            return _between(wanted, None, _at_or_after(time))
        case LessThanOrEqual(path, datetime() as time) if path == _STORE_TIME:
            return _between(wanted, None, _after(time))
    return None


def _only_topics(wanted: Wanted, topics: frozenset[str]) -> Wanted:
    known = wanted.pushed_topics
    return msgspec.structs.replace(wanted, pushed_topics=topics if known is None else topics & known)


def _between(wanted: Wanted, start_ms: int | None, end_ms: int | None) -> Wanted:
    starts = [time for time in (wanted.start_ms, start_ms) if time is not None]
    ends = [time for time in (wanted.end_ms, end_ms) if time is not None]
    return msgspec.structs.replace(wanted, start_ms=max(starts) if starts else None, end_ms=min(ends) if ends else None)


def _at_or_after(time: datetime) -> int:
    """The first whole millisecond that is not before."""
    return -((_EPOCH - _aware(time)) // _MILLISECOND)


def _after(time: datetime) -> int:
    return (_aware(time) - _EPOCH) // _MILLISECOND + 1


def _aware(time: datetime) -> datetime:
    """Spark's literals come in UTC, and without saying so if they have no zone."""
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
