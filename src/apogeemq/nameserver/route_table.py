"""The name server's tables, and how brokers and topics leave them. (How they enter: registering.py.)

Pure: no clock, no socket, no file. `now_ms` is monotonic time. Each operation returns an `Outcome` that says what
changed and what is to be done about it.

Invariants, held by tests/property: a broker is in `live` exactly if its address is in its group; no group is
empty; a cluster lists exactly the groups with a live broker in it; every queue setting belongs to a known group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from apogeemq.model.routes import BrokerGroup, DataVersion, QueueMapping, QueueSettings
from apogeemq.model.topics import MASTER_ID, PERM_READ_WRITE, PERM_WRITE, is_writable
from apogeemq.nameserver import changes
from apogeemq.nameserver.changes import Change, MinIdNotice, Outcome
from apogeemq.nameserver.liveness import BrokerKey, DeadlineIndex
from apogeemq.protocol.bodies.registration_index import RegistrationIndex

RESTORED = 0  # "connection" of a broker read from the snapshot; real connections count from 1
_UNBOUND = -1
_MAX_SHARED_SETTINGS = 10_000


class LiveBroker(msgspec.Struct):
    """A broker that is there, as of its last word."""

    name: str
    broker_id: int
    data_version: DataVersion
    last_update_ms: int
    timeout_ms: int
    ha_address: str | None = None
    connection: int = _UNBOUND
    # Of the last registration, so that the next one need not be decoded where it says the same.
    identity: tuple[object, ...] = ()
    index: RegistrationIndex | None = None
    overrulings_seen: int = 0

    @property
    def is_restored(self) -> bool:
        return self.connection == RESTORED

    @property
    def deadline_ms(self) -> int:
        return self.last_update_ms + self.timeout_ms


class RouteTable:
    """All that brokers have said."""

    def __init__(self) -> None:
        self.topics: dict[str, dict[str, QueueSettings]] = {}  # topic -> broker name -> queues
        self.brokers: dict[str, BrokerGroup] = {}
        self.clusters: dict[str, dict[str, None]] = {}  # cluster -> broker names, in order of arrival
        self.live: dict[BrokerKey, LiveBroker] = {}
        self.filter_servers: dict[BrokerKey, list[str]] = {}
        self.queue_mappings: dict[str, dict[str, QueueMapping]] = {}
        self.restored_count = 0
        # Times that something a broker had said was taken away or changed by somebody else. A registration that
        # comes after that counts whole, even where it repeats what the broker said before.
        self.overrulings = 0
        self._deadlines = DeadlineIndex(self._deadline_of)
        self._by_connection: dict[int, set[BrokerKey]] = {}
        self._shared_settings: dict[QueueSettings, QueueSettings] = {}

    # -- liveness --------------------------------------------------------------------------------------------

    def add_live(self, key: BrokerKey, live: LiveBroker, connection: int) -> None:
        """The broker lives, in place of what was known of it, as long as this connection and its word hold."""
        known = self.live.get(key)
        if known is not None:
            self._unbind(key, known)
        self.live[key] = live
        self.bind(key, live, connection)
        self._deadlines.track(key, live.deadline_ms)

    def forget_live(self, key: BrokerKey) -> None:
        live = self.live.pop(key, None)
        if live is not None:
            self._unbind(key, live)
            self._deadlines.forget(key)

    def bind(self, key: BrokerKey, live: LiveBroker, connection: int) -> None:
        """From now on the broker stands and falls with this connection."""
        self._unbind(key, live)
        live.connection = connection
        self._by_connection.setdefault(connection, set()).add(key)
        if connection == RESTORED:
            self.restored_count += 1

    def _unbind(self, key: BrokerKey, live: LiveBroker) -> None:
        keys = self._by_connection.get(live.connection)
        if keys is not None and key in keys:
            keys.discard(key)
            if not keys:
                del self._by_connection[live.connection]
            if live.connection == RESTORED:
                self.restored_count -= 1

    def heartbeat(self, key: BrokerKey, now_ms: int) -> None:
        live = self.live.get(key)
        if live is not None and not live.is_restored:  # a restored broker must register, not just knock
            live.last_update_ms = now_ms

    def _deadline_of(self, key: BrokerKey) -> int | None:
        live = self.live.get(key)
        return live.deadline_ms if live is not None else None

    def expire(self, now_ms: int) -> Outcome:
        """Give up brokers whose time is over; their connections are to be closed."""
        keys = self._deadlines.expired(now_ms)
        connections = [self.live[key].connection for key in keys if not self.live[key].is_restored]
        outcome = self.remove(keys, "no word in time", changes.BROKER_EXPIRED)
        outcome.connections_to_close = connections
        return outcome

    # -- leaving ---------------------------------------------------------------------------------------------

    def unregister(self, key: BrokerKey, connection: int, name: str | None = None) -> Outcome:
        """A broker says it goes. Ignored when it, or one of another name, registered there on a newer connection."""
        live = self.live.get(key)
        if live is None or connection < live.connection or name not in (None, live.name):
            return Outcome()
        return self.remove([key], "unregistered", changes.BROKER_LEFT)

    def connection_closed(self, connection: int) -> Outcome:
        """The connection that carried these brokers' last registration is gone, and so are they."""
        return self.remove(sorted(self._by_connection.get(connection, ())), "connection closed", changes.BROKER_LEFT)

    def remove(self, keys: Iterable[BrokerKey], cause: str, kind: str) -> Outcome:
        outcome = Outcome()
        for key in keys:
            live = self.live[key]
            cluster, address = key
            self.set_filter_servers(key, live.name, [], outcome)
            self.forget_live(key)
            self.overrulings += 1
            group = self.brokers[live.name]
            was_lowest = live.broker_id == min(group.addresses)
            del group.addresses[live.broker_id]
            outcome.changes.append(Change(kind, cause, cluster, live.name, live.broker_id, address))
            outcome.topics |= self.topics_of(live.name)
            if not group.addresses:
                self._remove_group(group, cause, outcome)
            else:
                self.settle_clusters(group)
                self._close_writes_without_master(group, outcome)
                if was_lowest and group.acting_master:
                    outcome.notices.append(_departure_notice(group, address))
        return outcome

    def _remove_group(self, group: BrokerGroup, cause: str, outcome: Outcome) -> None:
        del self.brokers[group.name]
        self.settle_clusters(group)
        for topic in self.topics_of(group.name):
            self.drop_queues(topic, group, cause, outcome)

    def settle_clusters(self, group: BrokerGroup) -> None:
        """A name may be registered under several clusters; those without a live broker of it no longer list it.

        The group's own cluster is that of the broker who has been there longest.
        """
        inhabited = [key[0] for key, live in self.live.items() if live.name == group.name]
        if inhabited:
            group.cluster = inhabited[0]
        for cluster, names in list(self.clusters.items()):
            if group.name in names and cluster not in inhabited:
                del names[group.name]
                if not names:
                    del self.clusters[cluster]

    def _close_writes_without_master(self, group: BrokerGroup, outcome: Outcome) -> None:
        """While a slave acts for its master, the topics of the group can be read only."""
        if not group.acting_master or min(group.addresses) <= MASTER_ID:
            return
        if not any(is_writable(queues[group.name].perm) for queues in self.topics.values() if group.name in queues):
            return
        count = self._change_permissions(group.name, lambda perm: perm & ~PERM_WRITE)
        outcome.changes.append(
            Change(changes.WRITE_PERMISSION_WIPED, "master left", group.cluster, group.name, topic_count=count)
        )

    # -- topics and permissions ------------------------------------------------------------------------------

    def put_queues(
        self,
        topic: str,
        group: BrokerGroup,
        known: QueueSettings | None,
        settings: QueueSettings,
        cause: str,
        outcome: Outcome,
    ) -> None:
        """The group now offers a topic with these settings (a shared object) instead of the known ones."""
        name = group.name
        if known is None:
            self.topics.setdefault(topic, {})[name] = settings
            kind = changes.TOPIC_ADDED
        else:
            self.topics[topic][name] = settings
            kind = changes.TOPIC_CHANGED
        outcome.topics.add(topic)
        outcome.changes.append(Change(kind, cause, group.cluster, name, None, None, topic, settings))

    def shared(self, settings: QueueSettings) -> QueueSettings:
        """One object for equal settings: a large cluster has half a million of them, and few differ."""
        if len(self._shared_settings) >= _MAX_SHARED_SETTINGS:
            self._shared_settings.clear()  # those in use live on in the tables
        return self._shared_settings.setdefault(settings, settings)

    def drop_queues(self, topic: str, group: BrokerGroup, cause: str, outcome: Outcome) -> None:
        queues = self.topics[topic]
        del queues[group.name]
        if not queues:
            del self.topics[topic]
        self.overrulings += 1
        outcome.topics.add(topic)
        outcome.changes.append(Change(changes.TOPIC_REMOVED, cause, group.cluster, group.name, topic=topic))

    def register_topic(self, topic: str, queues: dict[str, QueueSettings]) -> Outcome:
        """A single topic, on brokers that are known; with an unknown one among them nothing is done."""
        outcome = Outcome()
        if all(name in self.brokers for name in queues):
            self.overrulings += 1
            known = self.topics.get(topic, {})
            for name, settings in queues.items():
                if known.get(name) != settings:
                    shared = self.shared(settings)
                    self.put_queues(topic, self.brokers[name], known.get(name), shared, "topic registered", outcome)
        return outcome

    def delete_topic(self, topic: str, cluster: str | None = None) -> Outcome:
        """From all brokers, or from those of one cluster."""
        outcome = Outcome()
        wanted = self.brokers if cluster is None else self.clusters.get(cluster, {})
        for name in [name for name in self.topics.get(topic, {}) if name in wanted]:
            self.drop_queues(topic, self.brokers[name], "topic deleted", outcome)
        return outcome

    def wipe_write_permission(self, broker_name: str) -> tuple[int, Outcome]:
        """Gives the number of topics touched."""
        count = self._change_permissions(broker_name, lambda perm: perm & ~PERM_WRITE)
        return count, self._permission_outcome(broker_name, changes.WRITE_PERMISSION_WIPED, count)

    def add_write_permission(self, broker_name: str) -> tuple[int, Outcome]:
        """Sets read and write whatever the permission was, as Apache does."""
        count = self._change_permissions(broker_name, lambda perm: PERM_READ_WRITE)
        return count, self._permission_outcome(broker_name, changes.WRITE_PERMISSION_ADDED, count)

    def _permission_outcome(self, broker_name: str, kind: str, count: int) -> Outcome:
        group = self.brokers.get(broker_name)
        if group is None:
            return Outcome()
        change = Change(kind, "asked for", group.cluster, broker_name, topic_count=count)
        return Outcome([change], self.topics_of(broker_name))

    def _change_permissions(self, broker_name: str, change: Callable[[int], int]) -> int:
        self.overrulings += 1
        count = 0
        for queues in self.topics.values():
            settings = queues.get(broker_name)
            if settings is not None:
                changed = settings._replace(perm=change(settings.perm))
                queues[broker_name] = self.shared(changed)
                count += 1
        return count

    def set_filter_servers(self, key: BrokerKey, broker_name: str, servers: list[str], outcome: Outcome) -> None:
        """An empty list removes them."""
        if servers == self.filter_servers.get(key, []):
            return
        if servers:
            self.filter_servers[key] = servers
        else:
            del self.filter_servers[key]
        outcome.topics |= self.topics_of(broker_name)

    def topics_of(self, broker_name: str) -> set[str]:
        return {topic for topic, queues in self.topics.items() if broker_name in queues}


def _departure_notice(group: BrokerGroup, offline_address: str) -> MinIdNotice:
    lowest = min(group.addresses)
    return MinIdNotice(list(group.addresses.values()), lowest, group.addresses[lowest], offline_address, None)
