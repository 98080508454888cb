"""Reading only what changed in a registration must come to the same as reading it whole."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import msgspec
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from apogeemq.model.routes import DataVersion, QueueMapping, QueueSettings
from apogeemq.nameserver.config import NameServerConfig
from apogeemq.nameserver.handlers.brokers import BrokerHandlers
from apogeemq.nameserver.kv_config import KvConfig
from apogeemq.nameserver.registering import register
from apogeemq.nameserver.registry import Registry
from apogeemq.nameserver.route_table import RouteTable
from apogeemq.protocol.bodies.registration import Registration, TopicConfig, decode_registration, encode_registration
from apogeemq.protocol.codec import decode_frame, encode_request
from apogeemq.protocol.codes import RequestCode
from apogeemq.protocol.fields import write_fields
from apogeemq.protocol.headers.nameserver import RegisterBroker
from apogeemq.protocol.versions import CURRENT
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher
from apogeemq.transport.flow import Limits
from apogeemq.transport.server import Server

NAMES = [f"topic-{number:03d}" for number in range(150)]  # a body of some 25 KB: six pieces
TOPICS = st.sampled_from(NAMES)
QUEUES = st.integers(1, 3)
IDS = st.sampled_from([0, 1, 2])


class Reading(RuleBasedStateMachine):
    """One table is fed by the handler, which reads changes only where it can; the other by whole registrations."""

    @initialize(delete_missing=st.sampled_from([False, False, True]), acting=st.booleans())
    def start(self, delete_missing: bool, acting: bool) -> None:
        self.delete_missing = delete_missing
        config = NameServerConfig(delete_topic_with_broker_registration=delete_missing)
        self.registry = Registry(
            config,
            KvConfig(Path("unused")),
            None,
            send_notice=lambda notice: None,
            close_connection=lambda connection: None,
        )
        self.handler = BrokerHandlers(self.registry)
        self.whole = RouteTable()
        self.loop = asyncio.new_event_loop()
        self.channel = Channel(Server(Dispatcher(), Limits()), self.loop)
        self.said = {broker_id: dict.fromkeys(NAMES[:120], 4) for broker_id in (0, 1, 2)}
        self.versions = dict.fromkeys((0, 1, 2), 1)
        self.mappings: dict[str, QueueMapping] = {}
        self.acting = acting

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.loop.close()

    # -- what brokers say ------------------------------------------------------------------------------------

    @rule(broker_id=IDS, edits=st.dictionaries(TOPICS, st.none() | QUEUES, max_size=3), is_new=st.booleans())
    def edit_and_register(self, broker_id: int, edits: dict[str, int | None], is_new: bool) -> None:
        """A new topic comes last, a known one stays in its place, None takes one away."""
        for topic, queues in edits.items():
            if queues is None:
                self.said[broker_id].pop(topic, None)
            else:
                self.said[broker_id][topic] = queues
        self.versions[broker_id] += is_new
        self.register(broker_id, broker_id)

    @rule(broker_id=IDS, is_new=st.booleans())
    def sort_and_register(self, broker_id: int, is_new: bool) -> None:
        self.said[broker_id] = dict(sorted(self.said[broker_id].items()))
        self.versions[broker_id] += is_new
        self.register(broker_id, broker_id)

    @rule(broker_id=IDS, topic=TOPICS, queue=QUEUES)
    def map_and_register(self, broker_id: int, topic: str, queue: int) -> None:
        self.mappings[topic] = QueueMapping("broker", {0: queue})
        self.register(broker_id, broker_id)

    @rule(broker_id=IDS, as_id=IDS)
    def switch_id(self, broker_id: int, as_id: int) -> None:
        self.register(broker_id, as_id)

    @rule()
    def turn_acting(self) -> None:
        self.acting = not self.acting

    def register(self, broker_id: int, as_id: int) -> None:
        header = RegisterBroker("broker", f"h{broker_id}:1", "c", as_id, enableActingMaster=self.acting)
        topics = {name: TopicConfig(name, queues, queues) for name, queues in self.said[broker_id].items()}
        version = DataVersion(counter=self.versions[broker_id])
        body = encode_registration(Registration(version, topics, self.mappings, []))
        frame = encode_request(RequestCode.REGISTER_BROKER, 1, write_fields(header), body)
        answer = decode_frame(self.handler.register(self.channel, decode_frame(frame[4:]))[4:])
        wanted = register(
            self.whole,
            header,
            decode_registration(body, CURRENT, compressed=False),
            self.channel.number,
            0,
            delete_missing_topics=self.delete_missing,
        )
        assert answer.code == 0
        assert answer.fields().get("masterAddr") == wanted.master_address

    # -- what others do to it --------------------------------------------------------------------------------

    @rule(do=st.sampled_from(["wipe_write_permission", "add_write_permission"]))
    def change_permission(self, do: str) -> None:
        for table in self.tables():
            getattr(table, do)("broker")

    @rule(topic=TOPICS)
    def delete_topic(self, topic: str) -> None:
        for table in self.tables():
            table.delete_topic(topic)

    @rule(topic=TOPICS)
    def register_topic(self, topic: str) -> None:
        for table in self.tables():
            table.register_topic(topic, {"broker": QueueSettings(9, 9, 6, 0)})

    @rule(broker_id=IDS)
    def unregister(self, broker_id: int) -> None:
        for table in self.tables():
            table.unregister(("c", f"h{broker_id}:1"), self.channel.number)

    def tables(self) -> tuple[RouteTable, RouteTable]:
        return self.registry.table, self.whole

    @invariant()
    def both_tables_are_equal(self) -> None:
        if hasattr(self, "registry"):
            read, whole = map(_state, self.tables())
            assert read == whole


def _state(table: RouteTable) -> dict[str, Any]:
    return {
        "topics": table.topics,
        "brokers": msgspec.to_builtins(table.brokers),
        "mappings": table.queue_mappings,
        "live": {key: (live.broker_id, live.data_version) for key, live in table.live.items()},
    }


TestReading = Reading.TestCase
TestReading.settings = settings(
    max_examples=1_000 if os.environ.get("APOGEE_SOAK") else 60, stateful_step_count=40, report_multiple_bugs=False
)
