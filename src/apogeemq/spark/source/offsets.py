"""Offsets of queues as JSON: `{topic: {broker: {queue: offset}}}`, in Spark's checkpoint and in options. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from apogeemq.errors import ConfigError
from apogeemq.model.queues import MessageQueue
from apogeemq.spark.options import INT64_MAX

Offsets: TypeAlias = dict[MessageQueue, int]
# What Spark keeps and hands back.
OffsetsJson: TypeAlias = dict[str, dict[str, dict[str, int]]]

LATEST: Final = -1
EARLIEST: Final = -2


def to_json(offsets: Mapping[MessageQueue, int]) -> OffsetsJson:
    """The same text for the same offsets: Spark compares texts."""
    found: OffsetsJson = {}
    for queue in sorted(offsets, key=queue_order):
        brokers = found.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = offsets[queue]
    return found


def from_json(found: object) -> Offsets:
    """What `to_json` gave, now or years ago. ConfigError when it is not that."""
    try:
        return dict(_leaves(found, _offset))
    except ValueError as error:
        raise ConfigError(f"offsets of a checkpoint: {error}; it is not of this source") from None


def queue_order(queue: MessageQueue) -> tuple[str, str, int]:
    return queue.topic, queue.broker_name, queue.queue_id


def named(queues: Iterable[MessageQueue], at_most: int = 5) -> str:
    """For errors: which queues."""
    ordered = sorted(queues, key=queue_order)
    texts = [f"queue {queue.queue_id} of topic {queue.topic} on {queue.broker_name}" for queue in ordered[:at_most]]
    rest = len(ordered) - at_most
    return ", ".join(texts) + (f" and {rest} more" if rest > 0 else "")


def _leaves(found: object, read: Callable[[object], int]) -> Iterable[tuple[MessageQueue, int]]:
    for topic, brokers in _members(found, "topics").items():
        for broker, queues in _members(brokers, f"the brokers of {topic}").items():
            for queue, value in _members(queues, f"the queues of {topic} on {broker}").items():
                yield MessageQueue(broker, queue_id_of(queue), topic), read(value)


def _members(found: object, what: str) -> dict[str, object]:
    if not isinstance(found, dict):
        raise ValueError(f"expected {what} as a JSON object, not {found!r}")
    return found


def queue_id_of(text: object) -> int:
    """ValueError unless it is a queue's number."""
    if not isinstance(text, str) or not text.isascii() or not text.isdigit() or int(text) >= 2**31:
        raise ValueError(f"expected the number of a queue, not {text!r}")
    return int(text)


def _offset(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= INT64_MAX:
        raise ValueError(f"expected an offset, not {value!r}")
    return value


class QueueNumbers:
    """A number for each queue, as an option gives it: for a topic, for a broker of it, or for a queue.

    `{"orders": -2, "bills": {"broker-a": {"0": 17, "1": -1}, "broker-b": -1}}`
    """

    def __init__(self, by_place: Mapping[tuple[str, ...], int]) -> None:
        self.by_place = dict(by_place)

    @classmethod
    def read(cls, found: Mapping[str, object], check: Callable[[tuple[str, ...], int], None]) -> QueueNumbers:
        """ValueError when it is something else, or when `check` finds a number wrong at its place."""
        by_place: dict[tuple[str, ...], int] = {}
        waiting: list[tuple[tuple[str, ...], object]] = [((topic,), value) for topic, value in found.items()]
        while waiting:
            place, value = waiting.pop()
            if isinstance(value, dict) and len(place) < 3:
                waiting += (((*place, str(name)), below) for name, below in value.items())
            elif isinstance(value, int) and not isinstance(value, bool):
                if len(place) == 3:
                    place = (*place[:2], str(queue_id_of(place[2])))
                check(place, value)
                by_place[place] = value
            else:
                raise ValueError(f"{value!r} stands where a number is expected, at {' → '.join(place)}")
        return cls(by_place)

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(place[0] for place in self.by_place)

    def of(self, queue: MessageQueue) -> int | None:
        """None for one that it says nothing of."""
        place = (queue.topic, queue.broker_name, str(queue.queue_id))
        return next((self.by_place[place[:depth]] for depth in (3, 2, 1) if place[:depth] in self.by_place), None)

    def unused(self, queues: Iterable[MessageQueue]) -> list[str]:
        """Places that are of none of these queues."""
        used = {
            (queue.topic, queue.broker_name, str(queue.queue_id))[:depth] for queue in queues for depth in (1, 2, 3)
        }
        return sorted(" → ".join(place) for place in self.by_place if place not in used)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QueueNumbers) and self.by_place == other.by_place

    def __hash__(self) -> int:
        return hash(frozenset(self.by_place.items()))
