"""What an operation on the route table did: the words for the journal and the work for the server."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from apogeemq.model.routes import QueueSettings

BROKER_JOINED = "broker_joined"
BROKER_LEFT = "broker_left"
BROKER_EXPIRED = "broker_expired"
BROKER_SWITCHED_ID = "broker_switched_id"
BROKER_CHANGED = "broker_changed"
TOPIC_ADDED = "topic_added"
TOPIC_CHANGED = "topic_changed"
TOPIC_REMOVED = "topic_removed"
WRITE_PERMISSION_WIPED = "write_permission_wiped"
WRITE_PERMISSION_ADDED = "write_permission_added"


class Change(msgspec.Struct, frozen=True, gc=False):
    """One line of the journal, but for its number and time."""

    kind: str
    cause: str
    cluster: str
    broker: str
    broker_id: int | None = None
    address: str | None = None
    topic: str | None = None
    queues: QueueSettings | None = None
    topic_count: int | None = None


class MinIdNotice(NamedTuple):
    """Brokers of a group to be told that its lowest broker id is another one now."""

    targets: list[str]
    min_broker_id: int
    min_broker_address: str
    offline_address: str | None
    ha_address: str | None


class Outcome(msgspec.Struct):
    """What the caller must do after an operation: journal, drop cached answers, tell watchers and brokers."""

    changes: list[Change] = []
    topics: set[str] = set()
    notices: list[MinIdNotice] = []
    connections_to_close: list[int] = []

    def merge(self, other: Outcome) -> None:
        self.changes += other.changes
        self.topics |= other.topics
        self.notices += other.notices
        self.connections_to_close += other.connections_to_close
