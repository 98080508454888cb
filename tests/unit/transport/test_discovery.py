"""Where name server addresses come from."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from apogeemq.errors import ConfigError, NoNameServer
from apogeemq.transport.discovery import (
    MAX_ANSWER_SIZE,
    REFRESH_SECONDS,
    HttpAddressServer,
    ListedAddresses,
    address_server_url,
    find_source,
)
from tests.unit.transport.address_servers import AddressServer
from tests.unit.transport.live import on_each_loop


@pytest.fixture
def site() -> Iterator[AddressServer]:
    running = AddressServer()
    yield running
    running.close()


# -- which source --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("explicit", "settings", "addresses"),
    [
        ("a:1;b:2", {"NAMESRV_ADDR": "c:3", "rocketmq.namesrv.addr": "d:4"}, ["a:1", "b:2"]),
        ("", {"NAMESRV_ADDR": "c:3", "rocketmq.namesrv.addr": "d:4"}, ["d:4"]),
        (" ", {"NAMESRV_ADDR": "c:3;e:5", "rocketmq.namesrv.addr": " "}, ["c:3", "e:5"]),
    ],
)
def test_what_is_given_comes_before_the_setting_and_that_before_the_environment(
    explicit: str, settings: dict[str, str], addresses: list[str]
) -> None:
    source = find_source(explicit, settings)
    assert source.refresh_seconds is None
    assert asyncio.run(source.fetch()) == addresses


def test_without_any_of_them_the_address_server_is_asked() -> None:
    source = find_source("", {}, "unit")
    assert isinstance(source, HttpAddressServer)
    assert source.url == "http://jmenv.tbsite.net:8080/rocketmq/nsaddr-unit?nofix=1"
    assert source.refresh_seconds == REFRESH_SECONDS == 120


def test_an_address_server_may_be_given_by_its_url() -> None:
    source = find_source("http://site.example/rocketmq/nsaddr", {})
    assert isinstance(source, HttpAddressServer)
    assert source.url == "http://site.example/rocketmq/nsaddr"


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({}, "http://jmenv.tbsite.net:8080/rocketmq/nsaddr"),
        ({"rocketmq.namesrv.domain": "site"}, "http://site:8080/rocketmq/nsaddr"),
        ({"rocketmq.namesrv.domain": "site:80"}, "http://site:80/rocketmq/nsaddr"),
        ({"ROCKETMQ_NAMESRV_DOMAIN": "site"}, "http://site:8080/rocketmq/nsaddr"),
        (
            {"rocketmq.namesrv.domain.subgroup": "mine", "ROCKETMQ_NAMESRV_DOMAIN_SUBGROUP": "other"},
            "http://jmenv.tbsite.net:8080/rocketmq/mine",
        ),
    ],
)
def test_the_url_follows_apaches_convention(settings: dict[str, str], url: str) -> None:
    assert address_server_url(settings) == url
    assert address_server_url(settings, " ") == url
    assert address_server_url(settings, "u1") == f"{url}-u1?nofix=1"


@pytest.mark.parametrize("text", [";", "host", "a:1;b", "dns:name", "dns:"])
def test_a_list_that_is_none_is_a_config_error(text: str) -> None:
    with pytest.raises(ConfigError):
        find_source(text, {})


# -- over HTTP -----------------------------------------------------------------------------------------------


@on_each_loop
async def test_the_first_line_of_the_answer_is_the_list(site: AddressServer) -> None:
    site.answer = (200, b"\n 10.0.0.1:9876;10.0.0.2:9876 \r\nsecond:1\n")
    source = find_source("", {"rocketmq.namesrv.domain": site.domain}, "u1")
    assert await source.fetch() == ["10.0.0.1:9876", "10.0.0.2:9876"]
    assert site.paths == ["/rocketmq/nsaddr-u1?nofix=1"]


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (200, b"", "knows no name server"),
        (200, b" \n ", "knows no name server"),
        (200, b"<html>hello</html>", "is not of the form host:port"),
        (200, b"\xff\xfe:1 x", "is not of the form host:port"),
        (200, b"a:1;" * MAX_ANSWER_SIZE, "longer than 65536 bytes"),
        (404, b"a:1", "status 404"),
        (500, b"a:1", "status 500"),
        (204, b"", "status 204"),
    ],
)
@on_each_loop
async def test_an_answer_that_is_no_list(site: AddressServer, status: int, body: bytes, reason: str) -> None:
    site.answer = (status, body)
    with pytest.raises(NoNameServer, match=reason) as failure:
        await HttpAddressServer(f"http://{site.domain}/x").fetch()
    assert f"http://{site.domain}/x" in str(failure.value)


@on_each_loop
async def test_no_address_server_at_all() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/x"
        with pytest.raises(NoNameServer, match="refused"):
            await HttpAddressServer(url).fetch()


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\na:1"])
@on_each_loop
async def test_an_address_server_that_stalls_is_given_up(said: bytes) -> None:
    async def stall(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        await reader.read()
        writer.close()

    stalling = await asyncio.start_server(stall, "127.0.0.1", 0)
    port = stalling.sockets[0].getsockname()[1]
    with pytest.raises(NoNameServer, match="timed out"):
        await HttpAddressServer(f"http://127.0.0.1:{port}/x", timeout_seconds=0.05).fetch()
    stalling.close()


@on_each_loop
async def test_a_site_that_does_not_speak_http() -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"\x00\x01\x02 nonsense\r\n\r\n")
        writer.close()

    babbling = await asyncio.start_server(babble, "127.0.0.1", 0)
    port = babbling.sockets[0].getsockname()[1]
    with pytest.raises(NoNameServer, match="failed"):
        await HttpAddressServer(f"http://127.0.0.1:{port}/x", timeout_seconds=5).fetch()
    babbling.close()


@pytest.mark.parametrize("url", ["ftp://host/x", "file:///etc/passwd", "host:80"])
def test_only_http_is_fetched(url: str) -> None:
    with pytest.raises(ConfigError, match="is not an http:// or https:// URL"):
        HttpAddressServer(url)


# -- by name -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["dns:localhost:9876", "dns:///localhost:9876", "DNS:localhost:9876"])
@on_each_loop
async def test_a_dns_name_stands_for_all_its_addresses(text: str) -> None:
    source = ListedAddresses(f"10.0.0.1:1;{text}")
    found = await source.fetch()
    assert found[0] == "10.0.0.1:1"
    assert set(found[1:]) <= {"127.0.0.1:9876", "[::1]:9876"}
    assert len(found) > 1
    assert source.refresh_seconds == REFRESH_SECONDS


@on_each_loop
async def test_a_name_without_prefix_is_one_address() -> None:
    source = ListedAddresses("localhost:9876")
    assert await source.fetch() == ["localhost:9876"]
    assert source.refresh_seconds is None


@on_each_loop
async def test_a_name_nobody_knows() -> None:
    unknown = "dns:no-such-name.invalid:9876"
    with pytest.raises(NoNameServer, match=r"DNS .* no-such-name\.invalid"):
        await ListedAddresses(unknown).fetch()
    assert await ListedAddresses(f"{unknown};10.0.0.1:1").fetch() == ["10.0.0.1:1"]
