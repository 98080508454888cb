"""The broker's keys, and which of them nobody changes over the network."""

from __future__ import annotations

import pytest

from apogeemq.broker.config import FROZEN_KEYS, IMPORTANT_KEYS, BrokerConfig, is_frozen
from apogeemq.runtime.config import known_keys
from apogeemq.store.config import StoreConfig


def test_a_key_belongs_to_the_broker_or_to_the_store() -> None:
    assert not known_keys(BrokerConfig) & known_keys(StoreConfig)


@pytest.mark.parametrize("listed", [FROZEN_KEYS, IMPORTANT_KEYS], ids=["frozen", "important"])
def test_listed_keys_exist(listed: frozenset[str]) -> None:
    assert listed <= known_keys(BrokerConfig) | known_keys(StoreConfig)


@pytest.mark.parametrize("key", ["configBlackList", "brokerConfigPath", "storePathRootDir", "listenPort", "tls.enable"])
def test_frozen_whatever_the_black_list_says(key: str) -> None:
    assert is_frozen(key, BrokerConfig(config_black_list=""))


def test_the_black_list_adds_keys() -> None:
    assert not is_frozen("autoCreateTopicEnable", BrokerConfig())
    assert is_frozen("autoCreateTopicEnable", BrokerConfig(config_black_list="x; autoCreateTopicEnable"))


@pytest.mark.parametrize(("given_ms", "seconds"), [(1, 10), (10_000, 10), (30_000, 30), (60_001, 60)])
def test_registration_is_never_rarer_or_more_frequent_than_apaches(given_ms: int, seconds: float) -> None:
    assert BrokerConfig(register_name_server_period=given_ms).register_period_seconds == seconds
