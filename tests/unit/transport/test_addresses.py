"""How addresses are written, and which one is asked next."""

from __future__ import annotations

import pytest

from apogeemq.errors import ConfigError
from apogeemq.transport.addresses import AddressBook, format_address, parse_address, parse_addresses


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("10.0.0.1:9876", "10.0.0.1", 9876),
        (" name.example:1 ", "name.example", 1),
        ("[::1]:9876", "::1", 9876),
        ("::1:9876", "::1", 9876),
        ("[fe80::1%eth0]:65535", "fe80::1%eth0", 65535),
    ],
)
def test_host_and_port(text: str, host: str, port: int) -> None:
    assert parse_address(text) == (host, port)


@pytest.mark.parametrize(
    "text", ["", "host", ":9876", "host:", "host:x", "host:-1", "host:٣", "a b:1", "[]:1", "host:1 x"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ConfigError, match="is not of the form host:port"):
        parse_address(text)


@pytest.mark.parametrize("port", ["0", "65536", "99999999999"])
def test_ports_that_cannot_be(port: str) -> None:
    with pytest.raises(ConfigError, match="between 1 and 65535"):
        parse_address(f"host:{port}")


def test_addresses_are_written_so_that_they_can_be_read() -> None:
    assert format_address("host", 1) == "host:1"
    assert format_address("::1", 1) == "[::1]:1"
    assert parse_address(format_address("::1", 1)) == ("::1", 1)


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("", []),
        (" ; ,", []),
        ("a:1", ["a:1"]),
        ("a:1;b:2", ["a:1", "b:2"]),
        ("a:1, b:2 ;c:3,", ["a:1", "b:2", "c:3"]),
        ("b:1;a:1;b:1", ["b:1", "a:1"]),
        ("::1:1;[::1]:1", ["[::1]:1"]),
        ("http://MQ_INST_1_x.example:8080/", ["MQ_INST_1_x.example:8080"]),
    ],
)
def test_lists(text: str, addresses: list[str]) -> None:
    assert parse_addresses(text) == addresses


def book(*addresses: str, start: int = 0) -> AddressBook:
    return AddressBook(addresses, choose_start=lambda count: start)


def test_it_begins_anywhere_and_stays() -> None:
    assert [book("a", "b", "c", start=start).current for start in range(3)] == ["a", "b", "c"]
    assert {AddressBook("abc").current for _ in range(200)} == {"a", "b", "c"}


def test_a_bad_address_is_left_for_the_next_one_and_after_the_last_comes_the_first() -> None:
    addresses = book("a", "b", "c", start=1)
    seen = []
    for _ in range(4):
        seen.append(addresses.current)
        addresses.mark_bad(str(addresses.current))
    assert seen == ["b", "c", "a", "b"]


def test_a_late_word_about_an_address_already_left_changes_nothing() -> None:
    addresses = book("a", "b", "c")
    addresses.mark_bad("a")
    addresses.mark_bad("a")
    addresses.mark_bad("x")
    assert addresses.current == "b"


def test_the_order_begins_with_the_current_one() -> None:
    addresses = book("a", "b", "c", start=1)
    assert addresses.order() == ("b", "c", "a")
    assert addresses.addresses == ("a", "b", "c")


def test_a_new_list_keeps_the_current_address_if_it_can() -> None:
    addresses = book("a", "b", start=1)
    assert addresses.replace(["c", "b", "b"])
    assert (addresses.current, addresses.addresses) == ("b", ("c", "b"))
    assert not addresses.replace(["b", "c"])  # the same addresses in another order
    assert addresses.replace(["x", "y"])
    assert addresses.current == "y"


def test_an_empty_book() -> None:
    addresses = AddressBook()
    assert (addresses.current, addresses.order()) == (None, ())
    addresses.mark_bad("a")
    assert addresses.replace(["a"])
    assert addresses.replace([])
    assert addresses.current is None
