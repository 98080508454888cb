"""How defaults, file and flags make the settings of one run of the broker, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from apogeemq.broker.config import FAST_PORT_STEP, HA_PORT_STEP, BrokerConfig, ServerSettings
from apogeemq.errors import ConfigError
from apogeemq.runtime.config import known_keys, load, unknown_key_warning
from apogeemq.runtime.settings import TLS_PREFIX, absolute_path, decode_settings
from apogeemq.store.config import ASYNC_FLUSH, ASYNC_MASTER, SLAVE, SYNC_FLUSH, SYNC_MASTER, StoreConfig
from apogeemq.transport.addresses import format_address, parse_address
from apogeemq.transport.reachability import is_unspecified
from apogeemq.transport.tls import TLS_KEYS

DATA_FOLDER: Final = "store"  # below the home folder, as Apache's default
_COMMIT_LOG_FOLDER: Final = "commitlog"
_CONFIG_FILE: Final = "config/broker.properties"

_SEPARATORS: Final = frozenset(" \t\r\n;:,@/\\")  # of lists and keys a broker's name becomes part of
_MAX_NAME_SIZE: Final = 127  # it is the name of a topic, too


def resolve_settings(
    file_properties: Mapping[str, str],
    flag_properties: Mapping[str, str],
    *,
    home: Path,
    host_name: str,
    local_address: str,
    config_file: Path | None = None,
) -> tuple[ServerSettings, list[str]]:
    """Defaults, then the file, then flags; and one warning per key that is unknown or overruled.

    `host_name` and `local_address` are this machine's, for what is not given. ConfigError for a bad value.
    """
    given = {**file_properties, **flag_properties}
    tls = {key: value for key, value in given.items() if key.startswith(TLS_PREFIX)}
    known, known_to_store = known_keys(BrokerConfig), known_keys(StoreConfig)
    config, _ = load(BrokerConfig, {key: value for key, value in given.items() if key in known})
    store, _ = load(StoreConfig, {key: value for key, value in given.items() if key in known_to_store})
    unknown = {key: value for key, value in given.items() if key not in known | known_to_store and key not in tls}
    warnings = [unknown_key_warning(key, known | known_to_store) for key in unknown]
    warnings += [unknown_key_warning(key, TLS_KEYS) for key in tls if key not in TLS_KEYS]
    check_supported(config, store)
    warnings += _settle_identity(config, store, host_name)
    _settle_addresses(config, store, local_address)
    _settle_paths(config, store, home, config_file)
    settings = ServerSettings(
        config=config,
        store=store,
        tls={key: value for key, value in tls.items() if key in TLS_KEYS},
        unknown=unknown,
        config_file=str(absolute_path(str(config_file), home)) if config_file is not None else None,
    )
    return settings, warnings


def settings_from_argument(argument: str, environment: Mapping[str, str]) -> ServerSettings:
    """The opposite of `settings_to_argument`; ConfigError when it is not that."""
    return decode_settings(ServerSettings, argument, environment)


def check_supported(config: BrokerConfig, store: StoreConfig) -> None:
    """ConfigError for what is not there: a broker that only looked as if it did what it was told would be worse."""
    if store.broker_role == SLAVE:
        raise ConfigError("brokerRole=SLAVE: this broker cannot be a slave yet; it starts as a master only")
    if store.broker_role not in (ASYNC_MASTER, SYNC_MASTER):
        raise ConfigError(f"brokerRole={store.broker_role}: expected {ASYNC_MASTER}, {SYNC_MASTER} or {SLAVE}")
    if store.flush_disk_type not in (ASYNC_FLUSH, SYNC_FLUSH):
        raise ConfigError(f"flushDiskType={store.flush_disk_type}: expected {ASYNC_FLUSH} or {SYNC_FLUSH}")
    if store.store_type != "default":
        raise ConfigError(f"storeType={store.store_type}: this broker has the default store only")
    if "," in store.store_path_commit_log:
        raise ConfigError("storePathCommitLog: this broker keeps its commit log in one folder, several are given")
    refused = {
        "enableDLegerCommitLog": store.enable_d_leger_commit_log,
        "duplicationEnable": store.duplication_enable,
        "enableControllerMode": config.enable_controller_mode,
        "aclEnable": config.acl_enable,
        "authenticationEnabled": config.authentication_enabled,
        "authorizationEnabled": config.authorization_enabled,
    }
    for key, is_wanted in refused.items():
        if is_wanted:
            raise ConfigError(f"{key}=true: this broker does not have that yet")


def _settle_identity(config: BrokerConfig, store: StoreConfig, host_name: str) -> list[str]:
    config.broker_name = config.broker_name or host_name
    for key, name in (("brokerName", config.broker_name), ("brokerClusterName", config.broker_cluster_name)):
        if not name or len(name.encode()) > _MAX_NAME_SIZE or any(character in _SEPARATORS for character in name):
            raise ConfigError(
                f"{key}={name}: expected 1 to {_MAX_NAME_SIZE} bytes without spaces, colons, commas, slashes, ; or @"
            )
    if config.broker_id == 0:
        return []
    warning = f"brokerId={config.broker_id} is ignored: a broker with brokerRole={store.broker_role} has the id 0"
    config.broker_id = 0
    return [warning]


def _settle_addresses(config: BrokerConfig, store: StoreConfig, local_address: str) -> None:
    port = config.listen_port
    if port and not (port + FAST_PORT_STEP > 0 and port + HA_PORT_STEP < 65_536):
        raise ConfigError(
            f"listenPort={port}: expected 3 to 65534, because the ports {port - 2} and {port + 1} are needed too"
        )
    host = local_address if is_unspecified(config.bind_address) else config.bind_address
    config.broker_ip1 = config.broker_ip1 or host
    config.broker_ip2 = config.broker_ip2 or host
    if config.advertise:
        config.advertise = format_address(*parse_address(config.advertise))
    if not store.ha_listen_port and port:
        store.ha_listen_port = port + HA_PORT_STEP
    if config.namesrv_addr.strip():
        from apogeemq.transport.discovery import find_source

        find_source(config.namesrv_addr, {})  # says what is wrong with it before anything starts


def _settle_paths(config: BrokerConfig, store: StoreConfig, home: Path, config_file: Path | None) -> None:
    root = absolute_path(store.store_path_root_dir or str(home / DATA_FOLDER), home)
    store.store_path_root_dir = str(root)
    store.store_path_commit_log = str(
        absolute_path(store.store_path_commit_log or str(root / _COMMIT_LOG_FOLDER), home)
    )
    config.broker_config_path = str(
        absolute_path(str(config_file or config.broker_config_path or root / _CONFIG_FILE), home)
    )
