"""Who can reach an address."""

from __future__ import annotations

import ipaddress
import socket

import pytest

from apogeemq.transport import reachability
from apogeemq.transport.reachability import is_loopback, is_private, is_public, is_unroutable, is_unspecified


def test_this_machines_address_is_one_it_can_bind() -> None:
    address = reachability.local_address()
    assert ipaddress.IPv4Address(address).version == 4
    with socket.socket() as server:
        server.bind((address, 0))


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        # unspecified, loopback, unroutable, private, public
        ("0.0.0.0", (True, False, True, True, False)),
        ("::", (True, False, True, True, False)),
        ("", (True, False, True, False, False)),
        ("127.0.0.1", (False, True, True, True, False)),
        ("127.8.8.8", (False, True, True, True, False)),
        ("::1", (False, True, True, True, False)),
        ("localhost", (False, True, True, False, False)),
        ("a.localhost", (False, True, True, False, False)),
        ("169.254.0.1", (False, False, True, True, False)),
        ("fe80::1", (False, False, True, True, False)),
        ("10.0.0.1", (False, False, False, True, False)),
        ("192.168.0.1", (False, False, False, True, False)),
        ("8.8.8.8", (False, False, False, False, True)),
        ("example.org", (False, False, False, False, False)),
    ],
)
def test_kinds_of_address(host: str, expected: tuple[bool, ...]) -> None:
    assert tuple(f(host) for f in (is_unspecified, is_loopback, is_unroutable, is_private, is_public)) == expected
