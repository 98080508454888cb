"""Which messages of a log a scan gives. Pure."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from apogeemq.model.flags import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from apogeemq.model.topics import is_system_topic

NEVER_IN_QUEUE: Final = (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)
_SYSTEM_PREFIX: Final = "RMQ_SYS_"  # Apache's 5.5 has half messages of another kind of store, too


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What brokers write for themselves is left out unless it is asked for, by the option or by its topic's name: half
    and delayed messages in the topics where they wait, traces, and records that never get into a queue."""

    # None: all.
    topics: frozenset[str] | None = None
    pattern: str = ""
    is_internal_wanted: bool = False
    # Store times in ms: from the first, to before the second.
    start_ms: int | None = None
    end_ms: int | None = None
    # Of filters: a topic must be in all of these as well.
    pushed_topics: frozenset[str] | None = None
    pushed_prefixes: tuple[str, ...] = ()

    def takes_topic(self, topic: str) -> bool:
        if self.pushed_topics is not None and topic not in self.pushed_topics:
            return False
        if not all(map(topic.startswith, self.pushed_prefixes)):
            return False
        if self.topics is not None:
            return topic in self.topics
        if not self.is_internal_wanted and (is_system_topic(topic) or topic.startswith(_SYSTEM_PREFIX)):
            return False
        return not self.pattern or re.fullmatch(self.pattern, topic) is not None

    def takes_time(self, store_time: int) -> bool:
        return (self.start_ms is None or store_time >= self.start_ms) and (
            self.end_ms is None or store_time < self.end_ms
        )

    def takes_flag(self, system_flag: int) -> bool:
        return self.is_internal_wanted or system_flag & TRANSACTION_MASK not in NEVER_IN_QUEUE

    @property
    def is_bounded_in_time(self) -> bool:
        return self.start_ms is not None or self.end_ms is not None


def pattern_problem(pattern: str) -> str | None:
    """Why it is no regular expression; None if it is one."""
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return str(error)
    return None
