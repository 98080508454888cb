"""Who serves a topic: queue settings, broker groups, routes and the version of a broker's topic table."""

from __future__ import annotations

from typing import NamedTuple

import msgspec


class DataVersion(msgspec.Struct, frozen=True, gc=False):
    """Version of a broker's topic table. Equal only if all three parts are."""

    counter: int = 0
    stateVersion: int = 0
    timestamp: int = 0

    def is_newer_than(self, other: DataVersion) -> bool:
        """Apache's order: state version, then counter, then time."""
        return (self.stateVersion, self.counter, self.timestamp) > (other.stateVersion, other.counter, other.timestamp)


class QueueSettings(NamedTuple):
    """What one broker offers for one topic. Equal settings are one shared object in the route table."""

    read_queues: int
    write_queues: int
    perm: int
    sys_flag: int


class BrokerGroup(msgspec.Struct):
    """The brokers that share a broker name: a master (id 0) and its slaves."""

    cluster: str
    name: str
    addresses: dict[int, str]
    zone: str | None = None
    acting_master: bool = False


class QueueMapping(msgspec.Struct, frozen=True):
    """Where a static topic's logical queues live on one broker."""

    bname: str | None = None
    currIdMap: dict[int, int] | None = None
    dirty: bool = False
    epoch: int = 0
    scope: str | None = None
    topic: str | None = None
    totalQueues: int = 0


class TopicRoute(msgspec.Struct):
    """The answer to "who serves this topic?"."""

    queues: dict[str, QueueSettings]
    brokers: list[BrokerGroup]
    filter_servers: dict[str, list[str]]
    queue_mappings: dict[str, QueueMapping] | None = None
    order_conf: str | None = None
