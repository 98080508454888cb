"""What every handler of a broker is given: its settings, tables and store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from apogeemq.broker.config import BrokerConfig, ServerSettings
from apogeemq.broker.incoming import PropertyRules
from apogeemq.broker.promises import FlushPromises
from apogeemq.broker.stats import BrokerStats
from apogeemq.broker.tables.clients import ClientTable
from apogeemq.broker.tables.groups import GroupTable
from apogeemq.broker.tables.offsets import OffsetTable
from apogeemq.broker.tables.queue_locks import QueueLocks
from apogeemq.broker.tables.topics import TopicTable
from apogeemq.model.ids import encode_host
from apogeemq.model.routes import DataVersion
from apogeemq.model.topics import TopicConfig
from apogeemq.protocol.replies import SendReplies
from apogeemq.runtime.clock import now_ms
from apogeemq.runtime.unique_ids import UniqueIds
from apogeemq.store.config import StoreConfig
from apogeemq.store.opening import OpenStore
from apogeemq.transport.addresses import parse_address
from apogeemq.transport.channel import Channel


class BrokerState:
    """Belongs to the event loop's thread. `address` and `store_host` are what clients are told."""

    def __init__(
        self,
        settings: ServerSettings,
        opened: OpenStore,
        promises: FlushPromises,
        host: bytes,
        address: str,
    ) -> None:
        config = settings.config
        self.settings = settings
        self.opened = opened
        self.store = opened.store
        self.promises = promises
        self.address = address
        self.store_host = encode_host(host, parse_address(address)[1])
        self.topics = TopicTable(config.max_topics)
        self.groups = GroupTable(
            is_auto_creation_on=config.auto_create_subscription_group, max_groups=config.max_groups
        )
        self.offsets = OffsetTable()
        self.clients: ClientTable[Channel] = ClientTable()
        self.locks = QueueLocks()
        self.stats = BrokerStats()
        self.unique_ids = UniqueIds(host)
        self.property_rules = PropertyRules(config.region_id, config.trace_on, config.broker_cluster_name)
        self.send_replies = SendReplies(config.region_id, config.trace_on, self.store_host)
        self.start_time_ms = self.now_ms()
        # A table that was never changed is as old as the broker; one that is read from its file has its own version.
        never_changed = DataVersion(timestamp=self.start_time_ms)
        self.topics.data_version = self.groups.data_version = self.offsets.data_version = never_changed
        # Set by the server, whose parts these are: make a changed table durable (or StorageFailed), have held pulls of
        # a topic look again, register with the name servers without waiting for the next time.
        self.keep_topics: Callable[[], Awaitable[None]] = _nothing
        self.keep_groups: Callable[[], Awaitable[None]] = _nothing
        self.wake_pulls: Callable[[str], None] = lambda topic: None
        self.register_soon: Callable[[], None] = lambda: None
        # Told of a topic that a send has made; the server may make it on the other brokers of the cluster, too.
        self.topic_auto_created: Callable[[TopicConfig], None] = lambda topic: None

    @property
    def config(self) -> BrokerConfig:
        return self.settings.config

    @property
    def store_config(self) -> StoreConfig:
        return self.settings.store

    def now_ms(self) -> int:
        return now_ms()


async def _nothing() -> None:
    pass
