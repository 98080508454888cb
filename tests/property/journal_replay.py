"""Who reads nothing but the journal knows the brokers and the topics' settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from apogeemq.nameserver import changes
from apogeemq.nameserver.changes import Change
from tests.property.route_model import Key, Settings

_ARRIVALS = (changes.BROKER_JOINED, changes.BROKER_SWITCHED_ID, changes.BROKER_CHANGED)
_DEPARTURES = (changes.BROKER_LEFT, changes.BROKER_EXPIRED)
_PERMISSIONS: dict[str, Callable[[int], int]] = {
    changes.WRITE_PERMISSION_WIPED: lambda perm: perm & ~2,
    changes.WRITE_PERMISSION_ADDED: lambda perm: 6,
}


class Replay:
    def __init__(self) -> None:
        self.brokers: dict[Key, tuple[str, int]] = {}
        self.topics: dict[tuple[str, str], Settings] = {}

    def take(self, changed: Iterable[Change]) -> None:
        for change in changed:
            if change.kind in _ARRIVALS:
                assert change.address is not None
                assert change.broker_id is not None
                self.brokers[change.cluster, change.address] = (change.broker, change.broker_id)
            elif change.kind in _DEPARTURES:
                assert change.address is not None
                del self.brokers[change.cluster, change.address]
            elif change.kind in _PERMISSIONS:
                for (topic, name), (read, write, perm, flag) in self.topics.items():
                    if name == change.broker:
                        self.topics[topic, name] = (read, write, _PERMISSIONS[change.kind](perm), flag)
            elif change.kind == changes.TOPIC_REMOVED:
                assert change.topic is not None
                del self.topics[change.topic, change.broker]
            else:
                assert change.topic is not None
                assert change.queues is not None
                is_known = (change.topic, change.broker) in self.topics
                assert is_known == (change.kind == changes.TOPIC_CHANGED)
                self.topics[change.topic, change.broker] = (*change.queues,)
