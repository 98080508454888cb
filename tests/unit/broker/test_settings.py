"""How file and flags make the settings of a run, and which are refused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from apogeemq.broker.config import ServerSettings
from apogeemq.broker.settings import resolve_settings, settings_from_argument
from apogeemq.errors import ConfigError
from apogeemq.runtime.config import parse_properties
from apogeemq.runtime.settings import settings_to_argument

HOME = Path("/home/sample")


def resolve(
    file: dict[str, str] | None = None, flags: dict[str, str] | None = None, config_file: Path | None = None
) -> tuple[ServerSettings, list[str]]:
    return resolve_settings(
        file or {}, flags or {}, home=HOME, host_name="sample", local_address="10.1.2.3", config_file=config_file
    )


def resolved(
    file: dict[str, str] | None = None, flags: dict[str, str] | None = None, config_file: Path | None = None
) -> ServerSettings:
    settings, warnings = resolve(file, flags, config_file)
    assert warnings == []
    return settings


def test_what_is_not_given_comes_from_the_machine() -> None:
    settings = resolved()
    assert (settings.config.broker_name, settings.config.broker_cluster_name) == ("sample", "DefaultCluster")
    assert settings.data_dir == HOME / "store"
    assert settings.store.store_path_commit_log == "/home/sample/store/commitlog"
    assert settings.config.broker_config_path == "/home/sample/store/config/broker.properties"
    assert settings.advertised_address(10_911) == "10.1.2.3:10911"
    assert settings.ha_address(10_911) == "10.1.2.3:10912"


def test_one_file_carries_the_keys_of_broker_and_store() -> None:
    settings = resolved(
        {"brokerName": "a", "flushDiskType": "SYNC_FLUSH", "listenPort": "1000"}, {"listenPort": "2000"}
    )
    assert (settings.config.broker_name, settings.store.flush_disk_type) == ("a", "SYNC_FLUSH")
    assert (settings.config.listen_port, settings.store.ha_listen_port) == (2000, 2001)


def test_everything_is_shown_sorted() -> None:
    settings, warnings = resolve({"brokerIp1": "1.1.1.1", "tls.server.mod": "x"})
    assert warnings == [
        "unknown key brokerIp1 is ignored; the nearest known key is brokerIP1",
        "unknown key tls.server.mod is ignored; the nearest known key is tls.server.mode",
    ]
    shown = settings.shown().splitlines()
    assert shown == sorted(shown)
    assert {"brokerIp1=1.1.1.1", "brokerIP1=10.1.2.3", "brokerRole=ASYNC_MASTER", "listenPort=10911"} <= set(shown)
    important = parse_properties(settings.shown_important())
    assert important.items() <= parse_properties(settings.shown()).items()
    assert "brokerName" in important
    assert "serverWorkerThreads" not in important


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ({"bindAddress": "127.0.0.1"}, "127.0.0.1:5"),
        ({"bindAddress": "::"}, "10.1.2.3:5"),
        ({"bindAddress": "::1"}, "[::1]:5"),
        ({"bindAddress": "127.0.0.1", "brokerIP1": "10.9.9.9"}, "10.9.9.9:5"),
        ({"brokerIP1": "10.9.9.9", "advertise": "example.org:7"}, "example.org:7"),
        ({"advertise": "::1:7"}, "[::1]:7"),
    ],
)
def test_what_clients_are_told(given: dict[str, str], address: str) -> None:
    assert resolved(given).advertised_address(5) == address


def test_any_free_port_leaves_the_slaves_port_open() -> None:
    settings = resolved({"listenPort": "0", "brokerIP2": "10.0.0.9"})
    assert settings.ha_address(4000) == "10.0.0.9:4001"


def test_a_master_has_the_id_0() -> None:
    settings, warnings = resolve({"brokerId": "3"})
    assert settings.config.broker_id == 0
    assert warnings == ["brokerId=3 is ignored: a broker with brokerRole=ASYNC_MASTER has the id 0"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"brokerRole": "SLAVE"}, "cannot be a slave yet"),
        ({"brokerRole": "MASTER"}, "expected ASYNC_MASTER, SYNC_MASTER or SLAVE"),
        ({"flushDiskType": "NONE"}, "expected ASYNC_FLUSH or SYNC_FLUSH"),
        ({"storeType": "defaultRocksDB"}, "the default store only"),
        ({"storePathCommitLog": "/a,/b"}, "one folder"),
        ({"enableDLegerCommitLog": "true"}, "does not have that yet"),
        ({"enableControllerMode": "true"}, "does not have that yet"),
        ({"aclEnable": "true"}, "does not have that yet"),
        ({"authenticationEnabled": "true"}, "does not have that yet"),
        ({"brokerName": "a b"}, "brokerName=a b: expected"),
        ({"brokerName": "x" * 128}, "expected 1 to 127 bytes"),
        ({"brokerClusterName": "../etc"}, "brokerClusterName"),
        ({"listenPort": "2"}, "expected 3 to 65534"),
        ({"listenPort": "65535"}, "expected 3 to 65534"),
        ({"listenPort": "many"}, "expected a whole number"),
        ({"advertise": "nowhere"}, "not of the form host:port"),
        ({"namesrvAddr": "nowhere"}, "not of the form host:port"),
        ({"mappedFileSizeCommitLog": "0"}, "expected a whole number from 4096"),
        ({"diskMaxUsedSpaceRatio": "101"}, "from 0 to 100"),
        ({"autoCreateTopicEnable": "perhaps"}, "expected true or false"),
    ],
)
def test_refused(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        resolve(given)


def test_the_configuration_file_is_where_changes_are_kept() -> None:
    settings = resolved({"brokerConfigPath": "/elsewhere"}, config_file=Path("/etc/broker.conf"))
    assert (settings.config.broker_config_path, settings.config_file) == ("/etc/broker.conf", "/etc/broker.conf")


def test_paths_are_absolute_and_know_home() -> None:
    settings = resolved({"storePathRootDir": "~/data", "storePathCommitLog": "~/log"})
    assert (settings.data_dir, settings.store.store_path_commit_log) == (HOME / "data", "/home/sample/log")
    assert resolved({"storePathRootDir": "data"}).data_dir.is_absolute()


def test_settings_travel_to_the_server_process_without_secrets_in_the_argument() -> None:
    settings = resolved({"namesrvAddr": "a:1", "tls.server.keyPassword": "secret", "fileReservedTime": "5"})
    settings.log_dir = "/logs"
    settings = msgspec.structs.replace(settings, program="mqbroker")
    argument, environment = settings_to_argument(settings)
    assert "secret" not in argument
    assert settings_from_argument(argument, environment) == settings
    assert settings.log_file == Path("/logs/broker.log")
    with pytest.raises(ConfigError, match="cannot be read"):
        settings_from_argument("{}", {})
