"""Random lives of a cluster: the tables agree with each other, with a slow model, with caches and the journal."""

from __future__ import annotations

import os
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from apogeemq.model.routes import DataVersion, QueueSettings, TopicRoute
from apogeemq.nameserver.changes import Outcome
from apogeemq.nameserver.registering import register
from apogeemq.nameserver.route_cache import RouteCache
from apogeemq.nameserver.route_queries import find_route
from apogeemq.nameserver.route_table import RESTORED, RouteTable
from apogeemq.nameserver.snapshot import decode_snapshot, encode_snapshot, restore
from apogeemq.protocol.bodies import routes
from apogeemq.protocol.bodies.registration import Registration, TopicConfig
from apogeemq.protocol.headers.nameserver import RegisterBroker
from tests.property.journal_replay import Replay
from tests.property.route_model import RouteModel, Said, Settings

CLUSTERS = st.sampled_from(["c1", "c2"])
NAMES = st.sampled_from(["a", "b"])
ADDRESSES = st.sampled_from(["h1:1", "h2:1", "h3:1"])
IDS = st.sampled_from([0, 0, 1, 2])
TOPICS = ["T", "U", "V", "rmq_sys_SYNC_BROKER_MEMBER_a"]
SETTINGS: st.SearchStrategy[Settings] = st.tuples(
    st.sampled_from([1, 4]), st.just(4), st.sampled_from([6, 4, 7]), st.sampled_from([0, 1])
)
TOPIC_TABLES = st.dictionaries(st.sampled_from(TOPICS), SETTINGS)
VERSIONS = st.tuples(st.integers(0, 1), st.integers(1, 2))
CONNECTIONS = st.integers(1, 5)
STEPS_MS = st.integers(0, 30)
SERVE_MS = 40

FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "cluster": CLUSTERS,
    "address": ADDRESSES,
    "name": NAMES,
    "broker_id": IDS,
    "version": VERSIONS,
    "topics": TOPIC_TABLES,
    "connection": CONNECTIONS,
    "timeout_ms": st.sampled_from([5, 20, 50]),
    "ha_address": st.sampled_from([None, "ha:1"]),
    "acting": st.sampled_from([None, False, True]),
    "zone": st.sampled_from([None, "z"]),
    "filter_servers": st.sampled_from([None, [], ["f:1"]]),
}


class Lives(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.model = RouteModel()
        self.replay = Replay()
        self.heard: list[tuple[dict[str, Any], bool]] = []
        self.use(RouteTable())

    @initialize(support_acting_master=st.booleans())
    def choose(self, support_acting_master: bool) -> None:
        self.support_acting_master = support_acting_master

    def use(self, table: RouteTable) -> None:
        self.table = table
        self.cache = RouteCache(self.find, 10_000)

    def find(self, topic: str) -> TopicRoute | None:
        return find_route(self.table, topic, support_acting_master=self.support_acting_master)

    def encoded(self, topic: str, standard: bool) -> bytes | None:
        route = self.find(topic)
        return None if route is None else routes.encode(routes.topic_route(route), standard)

    def apply(self, outcome: Outcome) -> None:
        self.cache.forget(outcome.topics)
        self.replay.take(outcome.changes)

    # -- what may happen -------------------------------------------------------------------------------------

    @rule(said=st.fixed_dictionaries(FIELDS), delete_missing=st.booleans())
    def register(self, said: dict[str, Any], delete_missing: bool) -> None:
        self.say(said, delete_missing)
        self.heard.append((said, delete_missing))

    @rule(data=st.data(), changed=st.lists(st.sampled_from(sorted(FIELDS)), max_size=2))
    def register_much_the_same(self, data: st.DataObject, changed: list[str]) -> None:
        if self.heard:
            said, delete_missing = data.draw(st.sampled_from(self.heard))
            self.register({**said, **{field: data.draw(FIELDS[field]) for field in changed}}, delete_missing)

    def say(self, said: dict[str, Any], delete_missing: bool) -> None:
        words = Said(**said, now_ms=self.now_ms)
        header = RegisterBroker(
            words.name,
            words.address,
            words.cluster,
            words.broker_id,
            words.ha_address,
            words.timeout_ms,
            words.acting,
            zone=words.zone,
        )
        registration = Registration(
            DataVersion(counter=words.version[1], stateVersion=words.version[0]),
            {topic: TopicConfig(topic, *settings) for topic, settings in words.topics.items()},
            {},
            words.filter_servers,
        )
        registered = register(
            self.table,
            header,
            registration,
            words.connection,
            self.now_ms,
            delete_missing_topics=delete_missing,
        )
        self.apply(registered.outcome)
        wanted = self.model.register(words, delete_missing=delete_missing)
        assert (registered.is_accepted, registered.master_address, registered.ha_address) == wanted

    @rule(cluster=CLUSTERS, address=ADDRESSES, connection=CONNECTIONS)
    def unregister(self, cluster: str, address: str, connection: int) -> None:
        self.apply(self.table.unregister((cluster, address), connection))
        self.model.unregister((cluster, address), connection)

    @rule(connection=CONNECTIONS)
    def close(self, connection: int) -> None:
        self.apply(self.table.connection_closed(connection))
        self.model.close(connection)

    @rule(step_ms=STEPS_MS)
    def expire(self, step_ms: int) -> None:
        self.now_ms += step_ms
        outcome = self.table.expire(self.now_ms)
        self.apply(outcome)
        assert set(outcome.connections_to_close) == self.model.expire(self.now_ms)

    @rule(cluster=CLUSTERS, address=ADDRESSES, step_ms=STEPS_MS)
    def heartbeat(self, cluster: str, address: str, step_ms: int) -> None:
        self.now_ms += step_ms
        self.table.heartbeat((cluster, address), self.now_ms)
        self.model.heartbeat((cluster, address), self.now_ms)

    @rule(name=NAMES)
    def wipe(self, name: str) -> None:
        count, outcome = self.table.wipe_write_permission(name)
        self.apply(outcome)
        assert count == self.model.wipe(name)

    @rule(name=NAMES)
    def add(self, name: str) -> None:
        count, outcome = self.table.add_write_permission(name)
        self.apply(outcome)
        assert count == self.model.add(name)

    @rule(topic=st.sampled_from(TOPICS), cluster=st.none() | CLUSTERS)
    def delete_topic(self, topic: str, cluster: str | None) -> None:
        self.apply(self.table.delete_topic(topic, cluster))
        self.model.delete_topic(topic, cluster)

    @rule(topic=st.sampled_from(TOPICS), queues=st.dictionaries(NAMES, SETTINGS))
    def register_topic(self, topic: str, queues: dict[str, Settings]) -> None:
        given = {name: QueueSettings(*settings) for name, settings in queues.items()}
        self.apply(self.table.register_topic(topic, given))
        self.model.register_topic(topic, queues)

    @rule()
    def restart(self) -> None:
        saved = decode_snapshot(encode_snapshot(self.table, 17))
        assert saved.sequence == 17
        table = RouteTable()
        restore(table, saved, self.now_ms, SERVE_MS)
        self.use(table)
        self.model.restart(self.now_ms, SERVE_MS)

    # -- what holds at all times -----------------------------------------------------------------------------

    @invariant()
    def tables_agree_with_each_other(self) -> None:
        table = self.table
        by_group = {(name, address) for name, group in table.brokers.items() for address in group.addresses.values()}
        assert by_group == {(live.name, key[1]) for key, live in table.live.items()}
        assert len(by_group) == len(table.live)
        assert all(table.brokers[live.name].addresses[live.broker_id] == key[1] for key, live in table.live.items())
        listed = {(cluster, name) for cluster, names in table.clusters.items() for name in names}
        assert listed == {(key[0], live.name) for key, live in table.live.items()}
        assert all(table.clusters.values())
        assert all(table.topics.values())
        assert {name for queues in table.topics.values() for name in queues} <= set(table.brokers)
        assert set(table.filter_servers) <= set(table.live)

    @invariant()
    def connections_agree_with_brokers(self) -> None:
        table = self.table
        bound = {(number, key) for number, keys in table._by_connection.items() for key in keys}
        assert bound == {(live.connection, key) for key, live in table.live.items()}
        assert all(table._by_connection.values())
        assert table.restored_count == sum(live.connection == RESTORED for live in table.live.values())

    @invariant()
    def table_equals_the_model(self) -> None:
        table, model = self.table, self.model
        topics = {(topic, name): tuple(one) for topic, queues in table.topics.items() for name, one in queues.items()}
        assert topics == model.topics
        assert {key: (live.name, live.broker_id) for key, live in table.live.items()} == {
            key: (broker.name, broker.broker_id) for key, broker in model.brokers.items()
        }
        for key, broker in model.brokers.items():
            live = table.live[key]
            assert (live.connection, live.deadline_ms) == (broker.connection, broker.deadline_ms)
            assert (live.data_version.stateVersion, live.data_version.counter) == broker.version
            assert table.filter_servers.get(key, []) == broker.filter_servers
        assert set(table.brokers) == set(model.traits)
        for name, group in table.brokers.items():
            assert group.addresses == model.group(name)
            assert (group.cluster, group.acting_master, group.zone) == (model.cluster_of(name), *model.traits[name])
        assert {cluster: set(names) for cluster, names in table.clusters.items()} == model.clusters()

    @invariant()
    def cached_answers_are_fresh(self) -> None:
        for topic in TOPICS:
            for standard in (True, False):
                assert self.cache.answer(topic, standard) == self.encoded(topic, standard)

    @invariant()
    def journal_tells_all(self) -> None:
        assert self.replay.topics == self.model.topics
        assert self.replay.brokers == {
            key: (broker.name, broker.broker_id) for key, broker in self.model.brokers.items()
        }


TestLives = Lives.TestCase
TestLives.settings = settings(
    max_examples=3_000 if os.environ.get("APOGEE_SOAK") else 150, stateful_step_count=40, report_multiple_bugs=False
)
