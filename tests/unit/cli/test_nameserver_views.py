"""`apogee namesrv routes`, `journal` and `diff` against running name servers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.unit.cli.background import in_background
from tests.unit.cli.commands import run
from tests.unit.name_servers import broker, connections, name_server, register, topics

NOBODY = "127.0.0.1:1"


@asynccontextmanager
async def two_servers(folder: Path) -> AsyncIterator[tuple[str, str]]:
    """The first knows two brokers, the second only one of them."""
    async with (
        name_server(folder / "x") as (_, first),
        name_server(folder / "y") as (_, second),
        connections() as pool,
    ):
        for address in (first, second):
            await register(pool, address, broker("broker-a"), topics("T1", "T2"))
        await register(pool, first, broker("broker-b"), topics("T2", "T3", perm=4))
        yield first, second


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    with in_background(two_servers(tmp_path_factory.mktemp("servers"))) as addresses:
        yield addresses


def test_routes_as_a_table(tmp_path: Path, servers: tuple[str, str]) -> None:
    ended = run("main", "namesrv", "routes", servers[0], home=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    for word in ("T1", "T2", "T3", "broker-a", "broker-b", "RW-", "R--", f"0={broker('broker-b').address}"):
        assert word in ended.stdout


def test_routes_of_some_topics_as_json(tmp_path: Path, servers: tuple[str, str]) -> None:
    ended = run("main", "namesrv", "routes", servers[0], "T1", "none", "--json", home=tmp_path)
    shown = json.loads(ended.stdout)
    assert shown["none"] is None
    assert [queue["brokerName"] for queue in shown["T1"]["queueDatas"]] == ["broker-a"]
    assert (ended.returncode, ended.stderr) == (1, "no route for none\n")


def test_journal(tmp_path: Path, servers: tuple[str, str]) -> None:
    ended = run("main", "namesrv", "journal", servers[1], "--from", "2", home=tmp_path)
    assert ended.returncode == 0
    assert [json.loads(line)["seq"] for line in ended.stdout.splitlines()] == [2, 3]


def test_journal_is_followed_until_interrupted(servers: tuple[str, str]) -> None:
    command = [sys.executable, "-m", "apogeemq.cli.main", "namesrv", "journal", servers[1], "-f"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as following:
        assert following.stdout is not None
        assert [json.loads(following.stdout.readline())["seq"] for _ in range(3)] == [1, 2, 3]
        following.send_signal(signal.SIGINT)
        _, errors = following.communicate(timeout=30)
    assert (following.returncode, errors) == (130, b"")


def test_diff_of_servers_that_agree(tmp_path: Path, servers: tuple[str, str]) -> None:
    port = servers[0].rpartition(":")[2]
    ended = run("main", "namesrv", "diff", servers[0], f"localhost:{port}", home=tmp_path)
    assert ended == (0, "2 name servers agree on 2 brokers and 3 topics.\n", "")


def test_diff_of_servers_that_differ(tmp_path: Path, servers: tuple[str, str]) -> None:
    ended = run("main", "namesrv", "diff", *servers, home=tmp_path)
    assert ended.returncode == 1
    for word in ("1 difference", "broker-b", "and the 2 topics it serves", servers[0], servers[1]):
        assert word in ended.stdout


def test_diff_as_json(tmp_path: Path, servers: tuple[str, str]) -> None:
    ended = run("main", "namesrv", "diff", "--json", "--namespace", "ns", *servers, home=tmp_path)
    assert ended.returncode == 1
    shown = json.loads(ended.stdout)
    assert shown["failures"] == {}
    assert [(found["subject"], found["name"]) for found in shown["differences"]] == [("broker", "broker-b")]
    assert shown["differences"][0]["said"][servers[1]] is None


def test_diff_with_a_server_that_is_not_there(tmp_path: Path, servers: tuple[str, str]) -> None:
    ended = run("main", "namesrv", "diff", *servers, NOBODY, home=tmp_path)
    assert ended.returncode == 2
    assert "broker-b" in ended.stdout  # the others are compared all the same
    assert ended.stderr.startswith(f"apogee: {NOBODY} could not be asked: ")


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("diff", NOBODY), "at least two name servers"),
        (("diff", "a", "b"), "address 'a' is not of the form host:port"),
        (("routes", "127.0.0.1:99999"), "the port is not between 1 and 65535"),
        (("routes", NOBODY), NOBODY),
        (("journal", NOBODY), NOBODY),
        (("routes", NOBODY, "--tls-config", "/nowhere"), "cannot read the config file /nowhere"),
    ],
)
def test_what_cannot_be_done_is_status_2(tmp_path: Path, args: tuple[str, ...], sentence: str) -> None:
    ended = run("main", "namesrv", *args, home=tmp_path)
    assert ended.returncode == 2
    assert sentence in ended.stderr


def test_requests_are_signed_with_the_keys_of_the_environment(tmp_path: Path) -> None:
    accounts = tmp_path / "accounts.toml"
    accounts.write_text('[[account]]\naccessKey = "someone"\nsecretKey = "12345678"\n')
    properties = {"aclEnable": "true", "aclOpenReads": "false", "aclAccountsFile": str(accounts)}
    keys = {"APOGEE_ACCESS_KEY": "someone", "APOGEE_SECRET_KEY": "12345678"}
    with in_background(name_server(tmp_path / "data", properties)) as (_, address):
        refused = run("main", "namesrv", "routes", address, home=tmp_path)
        served = run("main", "namesrv", "routes", address, home=tmp_path, env=keys)
    assert refused.returncode == 2
    assert (served.returncode, served.stderr) == (0, "")


def test_tls_is_spoken_when_asked_for(tmp_path: Path) -> None:
    tls_config = tmp_path / "tls.properties"
    tls_config.write_text("tls.test.mode.enable=true\n")  # trusts the certificate the server made for itself
    with in_background(name_server(tmp_path / "data", {"tls.server.mode": "enforcing"})) as (_, address):
        plain = run("main", "namesrv", "routes", address, home=tmp_path)
        secure = run("main", "namesrv", "routes", address, "--tls-config", str(tls_config), home=tmp_path)
    assert plain.returncode == 2
    assert (secure.returncode, secure.stderr) == (0, "")
