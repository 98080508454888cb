"""What the route table should hold, in the most obvious words: a list of brokers and a list of topic settings.

Everything else (groups, clusters, who is lowest) is worked out from these two whenever it is asked for. Written
from the protocol's rules, not from the table's code. Where we differ from Apache on purpose:

- a registration that is ignored or refused changes nothing at all;
- a word on an older connection, no newer than what is known, is ignored;
- a broker that is replaced (same id at another address, same address under another name or cluster) is gone;
- a topic registered for several brokers, one of them unknown, is registered for none;
- the group's cluster is that of the broker who has been there longest.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Key = tuple[str, str]  # cluster, address
Version = tuple[int, int]  # state version, counter
Settings = tuple[int, int, int, int]  # read queues, write queues, perm, system flag
WRITE = 2


@dataclass
class Broker:
    name: str
    broker_id: int
    version: Version
    connection: int
    deadline_ms: int
    timeout_ms: int
    ha_address: str | None = None
    filter_servers: list[str] = field(default_factory=list)


@dataclass
class Said:
    """One registration."""

    cluster: str
    address: str
    name: str
    broker_id: int
    version: Version
    topics: dict[str, Settings]
    connection: int
    now_ms: int
    timeout_ms: int
    ha_address: str | None
    acting: bool | None
    zone: str | None
    filter_servers: list[str] | None


class RouteModel:
    def __init__(self) -> None:
        self.brokers: dict[Key, Broker] = {}  # in order of arrival
        self.topics: dict[tuple[str, str], Settings] = {}  # (topic, broker name)
        self.traits: dict[str, tuple[bool, str | None]] = {}  # broker name -> acting master, zone

    # -- what follows from the lists -------------------------------------------------------------------------

    def group(self, name: str) -> dict[int, str]:
        return {broker.broker_id: key[1] for key, broker in self.brokers.items() if broker.name == name}

    def cluster_of(self, name: str) -> str:
        return next(key[0] for key, broker in self.brokers.items() if broker.name == name)

    def clusters(self) -> dict[str, set[str]]:
        return {
            cluster: {broker.name for key, broker in self.brokers.items() if key[0] == cluster}
            for cluster, _ in self.brokers
        }

    # -- operations ------------------------------------------------------------------------------------------

    def register(self, said: Said, *, delete_missing: bool) -> tuple[bool, str | None, str | None]:
        """Accepted? And for a slave its master's address and HA address."""
        key = (said.cluster, said.address)
        known = self.brokers.get(key)
        if known is not None and said.connection < known.connection and said.version <= known.version:
            return self._answer(said)
        holder = self.group(said.name).get(said.broker_id)
        rival = self.brokers.get((said.cluster, holder)) if holder not in (None, said.address) else None
        if rival is not None and rival.version[0] > said.version[0]:
            if known is not None:
                self.depart(key)
            return (True, None, None)
        if holder is None and len(said.topics) == 1:
            return (False, None, None)
        if known is not None and known.name != said.name:
            self.depart(key)
            known = None

        for other, broker in list(self.brokers.items()):
            is_same = broker.broker_id == said.broker_id or other[1] == said.address
            if broker.name == said.name and other != key and is_same:
                del self.brokers[other]
        filter_servers = said.filter_servers
        if filter_servers is None:
            filter_servers = known.filter_servers if known is not None else []
        self.traits[said.name] = (said.acting is True, said.zone)
        self.brokers[key] = Broker(
            said.name,
            said.broker_id,
            said.version,
            said.connection,
            said.now_ms + said.timeout_ms,
            said.timeout_ms,
            said.ha_address,
            filter_servers,
        )
        is_new = holder is None or known is None or known.version != said.version
        self._take_topics(said, is_new, delete_missing)
        return self._answer(said)

    def _take_topics(self, said: Said, is_new: bool, delete_missing: bool) -> None:
        is_prime_slave = said.acting is not None and said.broker_id == min(self.group(said.name))
        if said.broker_id != 0 and not is_prime_slave:
            return
        if delete_missing:
            for topic, name in list(self.topics):
                if name == said.name and topic not in said.topics:
                    del self.topics[topic, name]
        for topic, (read, write, perm, flag) in said.topics.items():
            if said.broker_id != 0 and said.acting:
                perm &= ~WRITE
            if is_new or (topic, said.name) not in self.topics:
                self.topics[topic, said.name] = (read, write, perm, flag)

    def _answer(self, said: Said) -> tuple[bool, str | None, str | None]:
        master = self.group(said.name).get(0)
        broker = self.brokers.get((said.cluster, master)) if master is not None else None
        if said.broker_id == 0 or broker is None:
            return (True, None, None)
        return (True, master, broker.ha_address)

    def depart(self, key: Key) -> None:
        name = self.brokers.pop(key).name
        left = self.group(name)
        is_acting, _ = self.traits[name]
        for topic, owner in list(self.topics):
            if owner == name and not left:
                del self.topics[topic, owner]
            elif owner == name and is_acting and min(left) > 0:
                self._set_perm(topic, name, self.topics[topic, name][2] & ~WRITE)
        if not left:
            del self.traits[name]

    def unregister(self, key: Key, connection: int) -> None:
        known = self.brokers.get(key)
        if known is not None and connection >= known.connection:
            self.depart(key)

    def close(self, connection: int) -> None:
        for key in [key for key, broker in self.brokers.items() if broker.connection == connection]:
            self.depart(key)

    def expire(self, now_ms: int) -> set[int]:
        """The connections to close."""
        late = {key: broker for key, broker in self.brokers.items() if broker.deadline_ms < now_ms}
        for key in late:
            self.depart(key)
        return {broker.connection for broker in late.values()} - {0}

    def heartbeat(self, key: Key, now_ms: int) -> None:
        broker = self.brokers.get(key)
        if broker is not None and broker.connection != 0:
            broker.deadline_ms = now_ms + broker.timeout_ms

    def wipe(self, name: str) -> int:
        return sum(self._set_perm(topic, name, settings[2] & ~WRITE) for topic, settings in self._topics_of(name))

    def add(self, name: str) -> int:
        return sum(self._set_perm(topic, name, 6) for topic, _ in self._topics_of(name))

    def delete_topic(self, topic: str, cluster: str | None) -> None:
        for owned, name in list(self.topics):
            if owned == topic and (cluster is None or name in self.clusters().get(cluster, set())):
                del self.topics[owned, name]

    def register_topic(self, topic: str, queues: dict[str, Settings]) -> None:
        if all(self.group(name) for name in queues):
            for name, settings in queues.items():
                self.topics[topic, name] = settings

    def restart(self, now_ms: int, serve_ms: int) -> None:
        """Brokers are there as long as the snapshot is served, without connection and filter servers."""
        for broker in self.brokers.values():
            broker.connection, broker.filter_servers = 0, []
            broker.deadline_ms, broker.timeout_ms = now_ms + serve_ms, serve_ms

    def _topics_of(self, name: str) -> list[tuple[str, Settings]]:
        return [(topic, settings) for (topic, owner), settings in self.topics.items() if owner == name]

    def _set_perm(self, topic: str, name: str, perm: int) -> int:
        read, write, _, flag = self.topics[topic, name]
        self.topics[topic, name] = (read, write, perm, flag)
        return 1
