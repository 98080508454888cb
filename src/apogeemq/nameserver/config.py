"""The name server's configuration: Apache's keys with Apache's defaults, and ours.

This module is part of the idle server's memory: nothing here reads files, arguments or the environment. The
command line does that, calls `resolve_settings`, and hands the result to the server process as one argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final

import msgspec

from apogeemq.errors import ConfigError
from apogeemq.runtime.config import (
    AtLeastOne,
    ByteSize,
    Count,
    FrameSize,
    Port,
    PortOrOff,
    known_keys,
    load,
    to_properties,
    unknown_key_warning,
)
from apogeemq.runtime.settings import (
    TLS_PREFIX,
    ProcessSettings,
    absolute_path,
    decode_settings,
    is_listed,
)
from apogeemq.transport.tls import TLS_KEYS

DATA_FOLDER: Final = "namesrv"  # below the home folder, as Apache's default paths have it


class NameServerConfig(msgspec.Struct, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Every key a person may set. "No effect" marks Apache's keys that are kept and shown but change nothing here."""

    # -- Apache's NamesrvConfig ------------------------------------------------------------------------------

    # Folder of a RocketMQ distribution, from ROCKETMQ_HOME. Not required. No effect.
    rocketmq_home: str = ""
    # Where the KV table is kept; kvConfig.json in the data folder unless set.
    kv_config_path: str = ""
    # Where a configuration written over the network is kept: the -c file, else namesrv.properties in the data folder.
    config_store_path: str = ""
    # The product environment that cluster-test mode asks, when found through an address server.
    product_env_name: str = "center"
    # Routes this server lacks are asked of the product environment's name servers.
    cluster_test: bool = False
    # Routes carry the order configuration of their topic (KV namespace ORDER_TOPIC_CONFIG).
    order_message_enable: bool = False
    # The answer to a registration carries that namespace.
    return_order_topic_config_to_broker: bool = True
    # One thread serves all requests: no effect.
    client_request_thread_pool_nums: Count = 8
    client_request_thread_pool_queue_capacity: Count = 50_000
    default_thread_pool_nums: Count = 16
    default_thread_pool_queue_capacity: Count = 10_000
    # Milliseconds between two looks for brokers whose heartbeat is overdue.
    scan_not_active_broker_interval: AtLeastOne = 5_000
    # Unregistration is done at once, there is no queue: no effect.
    un_register_broker_queue_capacity: Count = 3_000
    # A group without a master shows its lowest slave as master to readers.
    support_acting_master: bool = False
    # GET_ALL_TOPIC_LIST_FROM_NAMESERVER and the other topic lists are answered.
    enable_all_topic_list: bool = True
    enable_topic_list: bool = True
    # Brokers are told when the lowest id of their group changes.
    notify_min_broker_id_changed: bool = False
    # There is no controller inside this name server: no effect.
    enable_controller_in_namesrv: bool = False
    # Route queries are refused until this many seconds after the start.
    need_wait_for_service: bool = False
    wait_seconds_for_service: Count = 45
    # A registration removes the broker's topics that it does not name.
    delete_topic_with_broker_registration: bool = False
    # Keys that cannot be written over the network, besides those that never can (FROZEN_KEYS).
    config_black_list: str = "configBlackList;configStorePath;kvConfigPath"

    # -- Apache's NettyServerConfig --------------------------------------------------------------------------

    bind_address: str = "0.0.0.0"
    # 0 takes any free port and prints it.
    listen_port: Port = 9_876
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
    # A stopping server tells newer clients to go away, and waits this long for them.
    enable_shutdown_gracefully: bool = False
    shutdown_wait_time_seconds: Count = 30

    # -- ours ------------------------------------------------------------------------------------------------

    # Folder of the snapshot, the journal and, unless set elsewhere, Apache's two files; ~/namesrv unless set.
    data_dir: str = ""
    # After a restart, routes of the last run are served until brokers are back, or this many seconds.
    warm_start: bool = True
    warm_start_seconds: Count = 60
    # Every route change is a line in the journal: files of this many bytes, of which so many are kept.
    journal_enable: bool = True
    journal_file_size: FrameSize = 16 * 1024 * 1024
    journal_file_count: AtLeastOne = 8
    # Registrations, writes and admin requests must be signed by an account of this TOML file.
    acl_enable: bool = False
    acl_accounts_file: str = ""
    # With aclEnable: route queries and topic lists need no signature.
    acl_open_reads: bool = True
    # Admin requests are served to this machine only.
    admin_loopback_only: bool = False
    # Connections at once; more are closed when accepted.
    max_connections: AtLeastOne = 65_536
    # Bytes of one request, length word included.
    max_frame_size: FrameSize = 16 * 1024 * 1024
    # Requests (route watches) that wait for a later answer, at once; more are told SYSTEM_BUSY.
    max_held_requests: Count = 65_536
    # Seconds for a request that has begun to arrive to be complete.
    partial_frame_seconds: AtLeastOne = 30
    # Bytes of ready-encoded route answers that are kept.
    route_cache_bytes: ByteSize = 32 * 1024 * 1024
    # Topics one route watch may name.
    max_watch_topics: AtLeastOne = 1_000
    # Metrics, health and routes over HTTP: -1 is off, 0 any free port.
    http_port: PortOrOff = -1
    http_bind: str = "127.0.0.1"
    # The product environment's name servers (host:port;host:port), for cluster-test mode; -n sets it.
    product_namesrv_addr: str = ""


# What a request over the network can never change, whoever sends it: paths, addresses, access. Keys of TLS
# belong to these too.
FROZEN_KEYS: Final = frozenset(
    (
        # Apache's own list
        "configBlackList",
        "configStorePath",
        "kvConfigPath",
        "rocketmqHome",
        # where data, ports and trust are
        "dataDir",
        "bindAddress",
        "listenPort",
        "httpBind",
        "httpPort",
        "productNamesrvAddr",
        # who may do what
        "aclEnable",
        "aclAccountsFile",
        "aclOpenReads",
        "adminLoopbackOnly",
    )
)


def is_frozen(key: str, config: NameServerConfig) -> bool:
    """Whether a write over the network that names this key is refused."""
    return key in FROZEN_KEYS or key.startswith(TLS_PREFIX) or is_listed(key, config.config_black_list)


class ServerSettings(ProcessSettings, kw_only=True):
    """All that one run of the server is told."""

    LOG_FILE: ClassVar[str] = "namesrv.log"

    config: NameServerConfig
    program: str = "apogee namesrv"

    @property
    def data_dir(self) -> Path:
        return Path(self.config.data_dir)

    def shown(self) -> str:
        return to_properties(self.config, self.unknown)


def resolve_settings(
    file_properties: Mapping[str, str],
    flag_properties: Mapping[str, str],
    *,
    home: Path,
    config_file: Path | None = None,
) -> tuple[ServerSettings, list[str]]:
    """Defaults, then the file, then flags; and one warning per key that is unknown. ConfigError for a bad value."""
    given = {**file_properties, **flag_properties}
    tls = {key: value for key, value in given.items() if key.startswith(TLS_PREFIX)}
    config, warnings = load(NameServerConfig, {key: value for key, value in given.items() if key not in tls})
    warnings += [unknown_key_warning(key, TLS_KEYS) for key in tls if key not in TLS_KEYS]
    data_dir = absolute_path(config.data_dir, home) if config.data_dir else home / DATA_FOLDER
    config.data_dir = str(data_dir)
    config.kv_config_path = str(absolute_path(config.kv_config_path or str(data_dir / "kvConfig.json"), home))
    config.config_store_path = str(
        absolute_path(str(config_file or config.config_store_path or data_dir / "namesrv.properties"), home)
    )
    if config.acl_enable and not config.acl_accounts_file:
        raise ConfigError("aclEnable=true: expected aclAccountsFile to name the file of accounts")
    if config.acl_accounts_file:
        config.acl_accounts_file = str(absolute_path(config.acl_accounts_file, home))
    known = known_keys(NameServerConfig)
    settings = ServerSettings(
        config=config,
        tls={key: value for key, value in tls.items() if key in TLS_KEYS},
        unknown={key: value for key, value in given.items() if key not in known and key not in tls},
        config_file=str(absolute_path(str(config_file), home)) if config_file is not None else None,
    )
    return settings, warnings


def settings_from_argument(argument: str, environment: Mapping[str, str]) -> ServerSettings:
    """The opposite of `settings_to_argument`; ConfigError when it is not that."""
    return decode_settings(ServerSettings, argument, environment)
