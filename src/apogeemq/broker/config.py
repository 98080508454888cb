"""The broker's configuration: Apache's keys with Apache's defaults, and ours.

One properties file carries these keys and the store's (`store/config.py`). Nothing here reads files, arguments or
the environment; see `settings.py` for how a run's settings come about.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final

import msgspec

from apogeemq.runtime.config import (
    AtLeastOne,
    ByteSize,
    Count,
    FrameSize,
    LongCount,
    Port,
    PortOrOff,
    to_mapping,
    to_properties,
)
from apogeemq.runtime.settings import TLS_PREFIX, ProcessSettings, is_listed
from apogeemq.store.config import StoreConfig
from apogeemq.transport.addresses import format_address, parse_address

DEFAULT_CLUSTER: Final = "DefaultCluster"
LISTEN_PORT: Final = 10_911

# The fast port's distance: Apache's slaves and clients of the VIP channel connect there.
FAST_PORT_STEP: Final = -2
HA_PORT_STEP: Final = 1

_LEAST_REGISTER_MS = 10_000
_MOST_REGISTER_MS = 60_000


class BrokerConfig(msgspec.Struct, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Every key a person may set. "No effect" marks Apache's keys that are kept and shown but change nothing here."""

    # -- who it is -------------------------------------------------------------------------------------------

    # The host's name unless set.
    broker_name: str = ""
    broker_cluster_name: str = DEFAULT_CLUSTER
    # 0, whatever is set, for a master.
    broker_id: LongCount = 0
    # Folder of a RocketMQ distribution, from ROCKETMQ_HOME. Not required. No effect.
    rocketmq_home: str = ""
    # Where a configuration written over the network is kept: the -c file, else config/broker.properties in the store.
    broker_config_path: str = ""
    region_id: str = "DefaultRegion"

    # -- what clients and name servers are told --------------------------------------------------------------

    # The host clients are told, and slaves: the bind address if it is a concrete one, else one of this machine's.
    broker_ip1: str = msgspec.field(default="", name="brokerIP1")
    broker_ip2: str = msgspec.field(default="", name="brokerIP2")
    # Ours: host:port clients are told, in place of brokerIP1 and the port listened on; --advertise sets it.
    advertise: str = ""
    # Name servers, `a:9876;b:9876`. Empty: none, unless one of the two keys after it says where to look.
    namesrv_addr: str = ""
    # namesrvAddr holds names whose every DNS address is a name server.
    fetch_name_srv_addr_by_dns_lookup: bool = False
    # Without namesrvAddr, an address server is asked over HTTP.
    fetch_namesrv_addr_by_address_server: bool = False
    rmq_address_server_domain: str = ""
    rmq_address_server_sub_group: str = ""
    # Milliseconds between two looks whether the list of name servers is another one.
    update_name_server_addr_period: AtLeastOne = 120_000
    # Registration every so many ms, between 10,000 and 60,000; without force only when a name server knows less.
    register_name_server_period: AtLeastOne = 30_000
    force_register: bool = True
    register_broker_timeout_mills: AtLeastOne = 24_000
    compressed_register: bool = False
    # Changed topics are told one by one (REGISTER_TOPIC_IN_NAMESRV) instead of by an incremental registration.
    enable_single_topic_register: bool = False
    # The whole table goes in one registration: no effect.
    enable_split_registration: bool = False
    split_registration_size: AtLeastOne = 800
    # What clients may do with this broker: 4 read, 2 write, 6 both.
    broker_permission: Count = 6

    # -- topics and groups -----------------------------------------------------------------------------------

    auto_create_topic_enable: bool = True
    # Ours: a topic made on the way is made on all masters of the cluster, not on this one alone.
    auto_create_topic_on_all_brokers: bool = False
    auto_create_subscription_group: bool = True
    default_topic_queue_nums: AtLeastOne = 8
    cluster_topic_enable: bool = True
    broker_topic_enable: bool = True
    trace_topic_enable: bool = False
    msg_trace_topic_name: str = "RMQ_SYS_TRACE_TOPIC"
    trace_on: bool = True
    validate_system_topic_when_update_topic: bool = True
    enable_mixed_message_type: bool = False
    clear_retry_topic_when_delete_topic: bool = True
    enable_create_sys_group: bool = True

    # -- sending ---------------------------------------------------------------------------------------------

    reject_transaction_message: bool = False
    # Requests wait in no queue of ours: no effect.
    broker_fast_failure_enable: bool = True
    wait_time_mills_in_send_queue: LongCount = 200
    wait_time_mills_in_pull_queue: LongCount = 5_000
    wait_time_mills_in_lite_pull_queue: LongCount = 5_000
    wait_time_mills_in_heartbeat_queue: LongCount = 31_000
    wait_time_mills_in_transaction_queue: LongCount = 3_000
    wait_time_mills_in_ack_queue: LongCount = 3_000
    wait_time_mills_in_admin_broker_queue: LongCount = 5_000
    # Sends are refused before this moment (ms since 1970).
    start_accept_send_request_time_stamp: LongCount = 0
    # Sends that wait for their promise (sync flush) at once; more are refused with SYSTEM_BUSY.
    send_thread_pool_queue_capacity: AtLeastOne = 10_000
    store_reply_message_enable: bool = True
    transaction_time_out: LongCount = 6_000
    transaction_check_max: Count = 15
    transaction_check_interval: LongCount = 30_000
    transaction_op_msg_max_size: Count = 4_096
    transaction_op_batch_interval: Count = 3_000

    # -- consuming -------------------------------------------------------------------------------------------

    long_polling_enable: bool = True
    short_polling_time_mills: LongCount = 1_000
    notify_consumer_ids_changed_enable: bool = True
    flush_consumer_offset_interval: AtLeastOne = 5_000
    use_server_side_reset_offset: bool = True
    slave_read_enable: bool = False
    disable_consume_if_consumer_read_slowly: bool = False
    consumer_fallbehind_threshold: LongCount = 16 * 1024**3
    reject_pull_consumer_enable: bool = False
    lite_pull_message_enable: bool = True
    enable_property_filter: bool = False
    filter_support_retry: bool = False
    # Milliseconds without a heartbeat after which a client is forgotten.
    channel_expired_timeout: LongCount = 120_000
    subscription_expired_timeout: LongCount = 600_000
    lock_in_strict_mode: bool = False
    enable_register_producer: bool = True
    enable_broadcast_offset_store: bool = True

    # -- groups of brokers -----------------------------------------------------------------------------------

    enable_slave_acting_master: bool = False
    # With it name servers hear of this broker every second, and may take it for gone after notActive ms. The interval
    # has no effect.
    broker_heartbeat_interval: AtLeastOne = 1_000
    broker_not_active_timeout_millis: LongCount = 10_000
    send_heartbeat_timeout_millis: AtLeastOne = 1_000
    # Sign of life as name servers before 5.0 know it.
    compatible_with_old_name_srv: bool = True
    # Milliseconds for a call to another broker.
    forward_timeout: LongCount = 3_000
    # Refused when true.
    enable_controller_mode: bool = False

    # -- access ----------------------------------------------------------------------------------------------

    # Refused when true: this broker checks no signatures yet, and must not look as if it did.
    acl_enable: bool = False
    authentication_enabled: bool = False
    authorization_enabled: bool = False
    # Keys that cannot be written over the network, besides those that never can (FROZEN_KEYS).
    config_black_list: str = "configBlackList;brokerConfigPath"

    # -- one thread serves all requests: no effect -----------------------------------------------------------

    send_message_thread_pool_nums: Count = 4
    put_message_future_thread_pool_nums: Count = 4
    pull_message_thread_pool_nums: Count = 20
    lite_pull_message_thread_pool_nums: Count = 20
    process_reply_message_thread_pool_nums: Count = 20
    query_message_thread_pool_nums: Count = 10
    ack_message_thread_pool_nums: Count = 16
    admin_broker_thread_pool_nums: Count = 16
    client_manage_thread_pool_nums: Count = 32
    consumer_manage_thread_pool_nums: Count = 32
    heartbeat_thread_pool_nums: Count = 2
    end_transaction_thread_pool_nums: Count = 16
    put_thread_pool_queue_capacity: Count = 10_000
    pull_thread_pool_queue_capacity: Count = 100_000
    lite_pull_thread_pool_queue_capacity: Count = 100_000
    ack_thread_pool_queue_capacity: Count = 100_000
    reply_thread_pool_queue_capacity: Count = 10_000
    query_thread_pool_queue_capacity: Count = 20_000
    client_manager_thread_pool_queue_capacity: Count = 1_000_000
    consumer_manager_thread_pool_queue_capacity: Count = 1_000_000
    heartbeat_thread_pool_queue_capacity: Count = 50_000
    end_transaction_pool_queue_capacity: Count = 100_000
    admin_broker_thread_pool_queue_capacity: Count = 10_000
    async_send_enable: bool = True
    # A pulled batch is a slice of the mapped file either way: no effect.
    transfer_msg_by_heap: bool = True
    # Statistics are kept per topic and group as they are used: no effect.
    enable_detail_stat: bool = True
    auto_delete_unused_stats: bool = True

    # -- Apache's NettyServerConfig --------------------------------------------------------------------------

    bind_address: str = "0.0.0.0"
    # 0 takes any free port and prints it.
    listen_port: Port = LISTEN_PORT
    # One event loop, no pools: no effect.
    server_worker_threads: Count = 8
    server_callback_executor_threads: Count = 0
    server_selector_threads: Count = 3
    server_oneway_semaphore_value: Count = 256
    server_async_semaphore_value: Count = 64
    # Seconds without a byte either way before a connection is closed.
    server_channel_max_idle_time_seconds: Count = 120
    # The kernel sizes its buffers, and our own limit on queued answers applies: no effect.
    server_socket_snd_buf_size: Count = 0
    server_socket_rcv_buf_size: Count = 0
    write_buffer_high_water_mark: Count = 0
    write_buffer_low_water_mark: Count = 0
    # Connections the kernel holds for us until we accept them.
    server_socket_backlog: AtLeastOne = 1_024
    # About Netty itself: no effect.
    server_netty_worker_group_enable: bool = True
    server_pooled_byte_buf_allocator_enable: bool = True
    use_epoll_native_selector: bool = False
    # A stopping broker finishes what it has taken, and no more: no effect.
    enable_shutdown_gracefully: bool = False
    shutdown_wait_time_seconds: Count = 30

    # -- ours ------------------------------------------------------------------------------------------------

    # The second listening port, two below the first.
    fast_port_enable: bool = True
    # Connections at once, on each of the two ports; more are closed when accepted.
    max_connections: AtLeastOne = 65_536
    # Bytes of one request, length word included.
    max_frame_size: FrameSize = 16 * 1024 * 1024
    # Requests that wait for a later answer (held pulls, waiting sends), at once; more are told SYSTEM_BUSY.
    max_held_requests: Count = 200_000
    # Pulls held for new messages, of all those.
    max_held_pulls: Count = 100_000
    # Seconds for a request that has begun to arrive to be complete.
    partial_frame_seconds: AtLeastOne = 30
    # Bytes of answers one connection may leave unread before its requests wait.
    max_queued_answer_bytes: ByteSize = 64 * 1024 * 1024
    # Topics and groups this broker keeps; more are refused.
    max_topics: AtLeastOne = 100_000
    max_groups: AtLeastOne = 100_000
    # Metrics and health over HTTP: -1 is off, 0 any free port.
    http_port: PortOrOff = -1
    http_bind: str = "127.0.0.1"

    @property
    def register_period_seconds(self) -> float:
        return min(max(self.register_name_server_period, _LEAST_REGISTER_MS), _MOST_REGISTER_MS) / 1000


# What a request over the network can never change, whoever sends it: paths, addresses, access, the shape of files.
# Keys of TLS belong to these too.
FROZEN_KEYS: Final = frozenset(
    (
        # Apache's own list
        "configBlackList",
        "brokerConfigPath",
        # who it is and where it is found
        "brokerName",
        "brokerClusterName",
        "brokerId",
        "brokerRole",
        "brokerIP1",
        "brokerIP2",
        "advertise",
        "bindAddress",
        "listenPort",
        "haListenPort",
        "fastPortEnable",
        "httpBind",
        "httpPort",
        "rocketmqHome",
        # where data is, and its shape
        "storePathRootDir",
        "storePathCommitLog",
        "mappedFileSizeCommitLog",
        "mappedFileSizeConsumeQueue",
        "mappedFileSizeTimerLog",
        "maxHashSlotNum",
        "maxIndexNum",
        "messageDelayLevel",
        "storeType",
        "enableDLegerCommitLog",
        "enableControllerMode",
        # who may do what
        "aclEnable",
        "authenticationEnabled",
        "authorizationEnabled",
    )
)

# What `mqbroker -m` prints: the keys Apache marks as important, and ours of that kind.
IMPORTANT_KEYS: Final = frozenset(
    (
        *("brokerName", "brokerClusterName", "brokerId", "namesrvAddr", "brokerIP1", "listenPort", "bindAddress"),
        *("autoCreateTopicEnable", "autoCreateSubscriptionGroup", "msgTraceTopicName", "traceTopicEnable"),
        *("rejectTransactionMessage", "fetchNameSrvAddrByDnsLookup", "fetchNamesrvAddrByAddressServer"),
        *("transactionTimeOut", "transactionCheckMax", "transactionCheckInterval", "aclEnable"),
        *("storePathRootDir", "storePathCommitLog", "storeType", "flushIntervalCommitLog", "commitIntervalCommitLog"),
        *("flushCommitLogTimed", "deleteWhen", "fileReservedTime", "deleteFileBatchMax", "messageIndexEnable"),
        *("maxTransferBytesOnMessageInMemory", "maxTransferCountOnMessageInMemory"),
        *("maxTransferBytesOnMessageInDisk", "maxTransferCountOnMessageInDisk", "accessMessageInMemoryMaxRatio"),
        *("haMasterAddress", "brokerRole", "flushDiskType", "cleanFileForciblyEnable", "transientStorePoolEnable"),
        *("totalReplicas", "inSyncReplicas", "minInSyncReplicas"),
        *("advertise", "autoCreateTopicOnAllBrokers", "httpPort"),
    )
)


def is_frozen(key: str, config: BrokerConfig) -> bool:
    """Whether a write over the network that names this key is refused."""
    return key in FROZEN_KEYS or key.startswith(TLS_PREFIX) or is_listed(key, config.config_black_list)


class ServerSettings(ProcessSettings, kw_only=True):
    """All that one run of the broker is told."""

    LOG_FILE: ClassVar[str] = "broker.log"

    config: BrokerConfig
    store: StoreConfig
    program: str = "apogee broker"

    @property
    def data_dir(self) -> Path:
        return Path(self.store.store_path_root_dir)

    def shown(self) -> str:
        return to_properties(self.config, {**self.unknown, **to_mapping(self.store)})

    def shown_important(self) -> str:
        items = {**to_mapping(self.config), **to_mapping(self.store)}
        return "".join(f"{key}={items[key]}\n" for key in sorted(IMPORTANT_KEYS))

    def advertised_address(self, port: int) -> str:
        """What clients are told, when the broker listens on `port`."""
        return self.config.advertise or format_address(self.config.broker_ip1, port)

    def ha_address(self, port: int) -> str:
        """What slaves are told."""
        return format_address(self.config.broker_ip2, self.store.ha_listen_port or port + HA_PORT_STEP)

    def advertised_host(self) -> str:
        return parse_address(self.config.advertise)[0] if self.config.advertise else self.config.broker_ip1
