"""Which topics and queues are read: `subscribe`, `subscribePattern` or `assign`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from apogeemq.errors import ConfigError
from apogeemq.model.queues import MessageQueue
from apogeemq.model.topics import could_be_stored, is_of_group, is_system_topic, topic_problem
from apogeemq.spark.options import OptionReader, wrong

_WAYS: Final = ("subscribe", "subscribePattern", "assign")
_ASSIGN_FORM: Final = 'the queues of brokers by topic, one at least of each, such as {"orders": {"broker-a": [0, 1]}}'


class Selection(msgspec.Struct, frozen=True):
    """`topics` by name, or those that match `pattern`; of them `assigned` queues only, unless that is None."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    assigned: frozenset[MessageQueue] | None = None

    @classmethod
    def read(cls, options: OptionReader) -> Selection:
        """ConfigError unless exactly one of the options is given."""
        given = [name for name in _WAYS if options.has(name)]
        if len(given) != 1:
            problem = f"{' and '.join(given)} exclude each other" if given else "what to read is missing"
            raise ConfigError(f"{problem}: give exactly one of the options {', '.join(_WAYS)}")
        if pattern := options.text("subscribePattern", ""):
            return cls(pattern=_checked_pattern(pattern))
        if (found := options.json("assign", _ASSIGN_FORM)) is not None:
            return _assigned(found, options.text("assign", ""))
        return cls(topics=_checked_topics("subscribe", options.names("subscribe", ())))

    def chosen_topics(self, known: Iterable[str]) -> tuple[str, ...]:
        """Those to read of all there are. Those given by name count as there."""
        if not self.pattern:
            return self.topics
        wanted = re.compile(self.pattern)
        return tuple(sorted(topic for topic in known if wanted.fullmatch(topic) and not self._is_left_out(topic)))

    def takes(self, queue: MessageQueue) -> bool:
        if self.assigned is not None:
            return queue in self.assigned
        return bool(self.chosen_topics((queue.topic,))) if self.pattern else queue.topic in self.topics

    def _is_left_out(self, topic: str) -> bool:
        """A pattern for everything does not mean the system's topics; retries and dead letters where it says so."""
        return is_system_topic(topic) or (is_of_group(topic) and "%" not in self.pattern)


def _checked_pattern(pattern: str) -> str:
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise wrong("subscribePattern", pattern, f"a regular expression ({error})") from None
    return pattern


def _checked_topics(option: str, topics: tuple[str, ...]) -> tuple[str, ...]:
    for topic in topics:
        is_made_by_brokers = is_of_group(topic) and could_be_stored(topic.encode())
        if not is_made_by_brokers and (problem := topic_problem(topic)):
            raise wrong(option, topic, f"the name of a topic ({problem})")
    return topics


def _assigned(found: dict[str, object], text: str) -> Selection:
    queues: set[MessageQueue] = set()
    for topic, brokers in found.items():
        if not isinstance(brokers, dict) or not brokers:
            raise wrong("assign", text, _ASSIGN_FORM)
        for broker, ids in brokers.items():
            if not isinstance(ids, list) or not ids or not all(type(one) is int and 0 <= one < 2**31 for one in ids):
                raise wrong("assign", text, _ASSIGN_FORM)
            queues |= {MessageQueue(broker, queue_id, topic) for queue_id in ids}
    if not queues:
        raise wrong("assign", text, _ASSIGN_FORM)
    topics = tuple(sorted({queue.topic for queue in queues}))
    return Selection(topics=_checked_topics("assign", topics), assigned=frozenset(queues))
