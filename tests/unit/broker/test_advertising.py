"""A person is warned of an address that clients cannot reach."""

from __future__ import annotations

import pytest

from apogeemq.broker.advertising import advertising_warning
from apogeemq.broker.config import BrokerConfig


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "169.254.1.1", "224.0.0.1"])
@pytest.mark.parametrize("name_servers", ["10.0.0.5:9876", "127.0.0.1:9876;ns.example.org:9876", "http://addr/list"])
def test_nobody_elsewhere_reaches_it(host: str, name_servers: str) -> None:
    warning = advertising_warning(host, BrokerConfig(namesrv_addr=name_servers))
    assert warning is not None
    assert warning.startswith(f"clients are told to connect to {host}, which other machines cannot reach")
    assert "--advertise" in warning


@pytest.mark.parametrize("name_servers", ["", "127.0.0.1:9876", "localhost:9876;[::1]:9876"])
def test_all_on_one_machine_is_well(name_servers: str) -> None:
    assert advertising_warning("127.0.0.1", BrokerConfig(namesrv_addr=name_servers)) is None


def test_an_address_server_is_elsewhere() -> None:
    config = BrokerConfig(fetch_namesrv_addr_by_address_server=True)
    assert advertising_warning("127.0.0.1", config) is not None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_all_addresses_are_none_to_connect_to(host: str) -> None:
    assert "no address to connect to" in str(advertising_warning(host, BrokerConfig()))


def test_a_private_address_with_public_name_servers() -> None:
    public, mixed = (BrokerConfig(namesrv_addr=text) for text in ("8.8.8.8:1", "8.8.8.8:1;10.0.0.5:1"))
    assert "private network" in str(advertising_warning("172.17.0.2", public))
    assert advertising_warning("172.17.0.2", mixed) is None
    assert advertising_warning("8.8.4.4", public) is None
    assert advertising_warning("broker.example.org", public) is None
