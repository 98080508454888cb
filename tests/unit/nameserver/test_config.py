"""The name server's keys, their defaults, and how file and flags make the settings of a run."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from apogeemq.errors import ConfigError
from apogeemq.nameserver.config import (
    FROZEN_KEYS,
    NameServerConfig,
    ServerSettings,
    is_frozen,
    resolve_settings,
    settings_from_argument,
)
from apogeemq.runtime.config import known_keys, load, parse_properties
from apogeemq.runtime.settings import SECRETS_VARIABLE, settings_to_argument

HOME = Path("/home/sample")

# What Apache's name server 5.5.0 answers to GET_NAMESRV_CONFIG when nothing but its home folder is set.
APACHE_DEFAULTS = """\
bindAddress=0.0.0.0
clientRequestThreadPoolNums=8
clientRequestThreadPoolQueueCapacity=50000
clusterTest=false
configBlackList=configBlackList;configStorePath;kvConfigPath
configStorePath=/home/sample/namesrv/namesrv.properties
defaultThreadPoolNums=16
defaultThreadPoolQueueCapacity=10000
deleteTopicWithBrokerRegistration=false
enableAllTopicList=true
enableControllerInNamesrv=false
enableShutdownGracefully=false
enableTopicList=true
kvConfigPath=/home/sample/namesrv/kvConfig.json
listenPort=9876
needWaitForService=false
notifyMinBrokerIdChanged=false
orderMessageEnable=false
productEnvName=center
returnOrderTopicConfigToBroker=true
rocketmqHome=/opt/rocketmq
scanNotActiveBrokerInterval=5000
serverAsyncSemaphoreValue=64
serverCallbackExecutorThreads=0
serverChannelMaxIdleTimeSeconds=120
serverNettyWorkerGroupEnable=true
serverOnewaySemaphoreValue=256
serverPooledByteBufAllocatorEnable=true
serverSelectorThreads=3
serverSocketBacklog=1024
serverSocketRcvBufSize=0
serverSocketSndBufSize=0
serverWorkerThreads=8
shutdownWaitTimeSeconds=30
supportActingMaster=false
unRegisterBrokerQueueCapacity=3000
useEpollNativeSelector=false
waitSecondsForService=45
writeBufferHighWaterMark=0
writeBufferLowWaterMark=0
"""


def resolved(
    file: dict[str, str] | None = None, flags: dict[str, str] | None = None, config_file: Path | None = None
) -> ServerSettings:
    settings, warnings = resolve_settings(file or {}, flags or {}, home=HOME, config_file=config_file)
    assert warnings == []
    return settings


def test_every_key_of_apache_with_its_default() -> None:
    shown = resolved({"rocketmqHome": "/opt/rocketmq"}).shown().splitlines()
    assert set(APACHE_DEFAULTS.splitlines()) <= set(shown)
    assert shown == sorted(shown)


def test_flags_go_over_the_file_and_the_file_over_defaults() -> None:
    config = resolved({"listenPort": "1", "bindAddress": "127.0.0.1"}, {"listenPort": "2"}).config
    assert (config.listen_port, config.bind_address) == (2, "127.0.0.1")


def test_paths_default_into_the_data_folder_unless_set() -> None:
    config = resolved({}, {"dataDir": "/data"}).config
    assert (config.kv_config_path, config.config_store_path) == ("/data/kvConfig.json", "/data/namesrv.properties")
    explicit = resolved({"kvConfigPath": "~/kv", "configStorePath": "/etc/store"}, {"dataDir": "/data"}).config
    assert (explicit.kv_config_path, explicit.config_store_path) == ("/home/sample/kv", "/etc/store")


def test_configuration_file_is_where_changes_are_stored() -> None:
    settings = resolved({"configStorePath": "/elsewhere"}, config_file=Path("/etc/namesrv.conf"))
    assert settings.config.config_store_path == "/etc/namesrv.conf"
    assert settings.config_file == "/etc/namesrv.conf"


def test_paths_are_absolute() -> None:
    config = resolved({}, {"dataDir": "data"}).config
    assert Path(config.data_dir).is_absolute()
    assert Path(config.kv_config_path).is_absolute()


def test_unknown_keys_are_kept_and_warned_of() -> None:
    settings, warnings = resolve_settings({"listenPorts": "1", "tls.server.mod": "x"}, {}, home=HOME)
    assert warnings == [
        "unknown key listenPorts is ignored; the nearest known key is listenPort",
        "unknown key tls.server.mod is ignored; the nearest known key is tls.server.mode",
    ]
    assert settings.unknown == {"listenPorts": "1"}
    assert "listenPorts=1\n" in settings.shown()
    assert settings.tls == {}


def test_access_needs_a_file_of_accounts() -> None:
    with pytest.raises(ConfigError, match="aclAccountsFile"):
        resolve_settings({"aclEnable": "true"}, {}, home=HOME)
    assert resolved({"aclEnable": "true", "aclAccountsFile": "~/a.toml"}).config.acl_accounts_file == (
        "/home/sample/a.toml"
    )


def test_secrets_are_neither_shown_nor_in_the_argument() -> None:
    settings = resolved({"tls.server.keyPassword": "hush", "tls.server.mode": "enforcing"})
    argument, environment = settings_to_argument(settings)
    assert "hush" not in argument
    assert "hush" not in settings.shown()
    assert settings_from_argument(argument, environment) == settings
    assert settings_from_argument(argument, {}).tls == {"tls.server.mode": "enforcing"}


def test_argument_holds_what_was_set_and_comes_back_whole() -> None:
    settings = resolved({"listenPort": "0", "warmStart": "false"})
    settings = msgspec.structs.replace(
        settings, unknown={"x": "y"}, log_dir="/logs", log_level="DEBUG", program="mqnamesrv"
    )
    argument, environment = settings_to_argument(settings)
    assert environment == {}
    assert "serverSocketBacklog" not in argument
    assert settings_from_argument(argument, {"PATH": "/bin"}) == settings
    assert settings.log_file == Path("/logs/namesrv.log")
    assert settings.data_dir == HOME / "namesrv"


@pytest.mark.parametrize("argument", ["", "{}", "[]", '{"config":{"listenPort":"x"}}', '{"config":{"zzz":1}}'])
def test_argument_that_is_none_is_refused(argument: str) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        settings_from_argument(argument, {})


def test_bad_secrets_are_refused() -> None:
    argument, _ = settings_to_argument(resolved())
    with pytest.raises(ConfigError, match="cannot be read"):
        settings_from_argument(argument, {SECRETS_VARIABLE: "{"})


@pytest.mark.parametrize(
    "key",
    [
        *("configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome", "dataDir", "httpPort", "bindAddress"),
        *("aclEnable", "adminLoopbackOnly", "tls.server.mode", "tls.anything"),
    ],
)
def test_frozen_keys_stay_frozen_whatever_the_black_list_says(key: str) -> None:
    assert is_frozen(key, NameServerConfig(config_black_list=""))


def test_black_list_freezes_more() -> None:
    config = NameServerConfig(config_black_list="orderMessageEnable; warmStart")
    assert is_frozen("orderMessageEnable", config)
    assert is_frozen("warmStart", config)
    assert not is_frozen("orderMessageEnable", NameServerConfig())
    assert not is_frozen("noSuchKey", NameServerConfig())


def test_every_path_address_and_access_key_is_frozen() -> None:
    telling = ("Path", "Dir", "Home", "Bind", "bindAddress", "Port", "acl", "admin", "Addr")
    assert {key for key in known_keys(NameServerConfig) if any(word in key for word in telling)} <= FROZEN_KEYS
    assert known_keys(NameServerConfig) >= FROZEN_KEYS


def test_shown_configuration_loads_again() -> None:
    settings = resolved({"listenPort": "5"})
    assert load(NameServerConfig, parse_properties(settings.shown())) == (settings.config, [])
