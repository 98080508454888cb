"""Who may ask for what, over the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

import pytest

from apogeemq.errors import ConfigError, RequestRefused
from apogeemq.nameserver.access import AccessCheck, Need, load_accounts, need_of
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.signing import signed
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher
from apogeemq.transport.flow import Limits
from apogeemq.transport.pool import SendHook
from apogeemq.transport.server import Server
from tests.unit.event_loop import in_loop
from tests.unit.nameserver.live import Home

ACCOUNTS = """
[[account]]
accessKey = "reader"
secretKey = "reader-secret"

[[account]]
accessKey = "broker"
secretKey = "broker-secret"
may = ["read", "register"]

[[account]]
accessKey = "boss"
secretKey = "boss-secret"
may = ["admin"]
"""

SIGNED_ONLY = (ResponseCode.NO_PERMISSION, "this name server takes signed requests only")
ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


def sign_as(access_key: str, secret_key: str | None = None) -> SendHook:
    def hook(code: int, fields: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        return signed(fields, body, access_key, secret_key or f"{access_key}-secret")

    return hook


@pytest.fixture
def guarded(home: Home) -> dict[str, str]:
    """The keys that turn the check on."""
    home.folder.mkdir()
    path = home.folder / "accounts.toml"
    path.write_text(ACCOUNTS)
    return {"aclEnable": "true", "aclAccountsFile": str(path)}


def test_every_code_has_a_need_and_unknown_ones_are_for_administrators() -> None:
    needs = {need: {code for code in RequestCode if need_of(code) is need} for need in Need}
    assert needs[Need.REGISTER] == {
        RequestCode.REGISTER_BROKER,
        RequestCode.UNREGISTER_BROKER,
        RequestCode.QUERY_DATA_VERSION,
        RequestCode.BROKER_HEARTBEAT,
        RequestCode.REGISTER_TOPIC_IN_NAMESRV,
    }
    assert needs[Need.ADMIN] >= {
        RequestCode.PUT_KV_CONFIG,
        RequestCode.DELETE_KV_CONFIG,
        RequestCode.WIPE_WRITE_PERM_OF_BROKER,
        RequestCode.ADD_WRITE_PERM_OF_BROKER,
        RequestCode.DELETE_TOPIC_IN_NAMESRV,
        RequestCode.UPDATE_NAMESRV_CONFIG,
        RequestCode.GET_NAMESRV_CONFIG,
    }
    assert need_of(31_999) is Need.ADMIN


@in_loop
async def test_unsigned_requests_may_only_read(home: Home, guarded: dict[str, str]) -> None:
    async with home.serve(**guarded) as running:
        broker = running.client(before_send=[sign_as("broker")])
        await broker.register()
        anyone = running.client()
        assert await anyone.route("TopicA") is not None
        await anyone.ok(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        for code in (RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER, RequestCode.PUT_KV_CONFIG):
            assert await anyone.refused(code) == SIGNED_ONLY
        assert await anyone.refused(RequestCode.GET_NAMESRV_CONFIG) == SIGNED_ONLY
        assert running.name_server.access_refusals() == 4
        assert list(running.table.brokers) == ["broker-a"]


@in_loop
async def test_reads_can_be_closed_too(home: Home, guarded: dict[str, str]) -> None:
    async with home.serve(**guarded, aclOpenReads="false") as running:
        await running.client(before_send=[sign_as("broker")]).register()
        assert await running.client().refused(ROUTE, topic="TopicA") == SIGNED_ONLY
        assert await running.client(before_send=[sign_as("reader")]).route("TopicA") is not None
        assert await running.client(before_send=[sign_as("boss")]).route("TopicA") is not None


@in_loop
async def test_account_may_do_what_it_may_and_no_more(home: Home, guarded: dict[str, str]) -> None:
    async with home.serve(**guarded) as running:
        reader, broker, boss = (running.client(before_send=[sign_as(key)]) for key in ("reader", "broker", "boss"))
        wipe = RequestCode.WIPE_WRITE_PERM_OF_BROKER
        assert await reader.refused(RequestCode.UNREGISTER_BROKER) == (
            ResponseCode.NO_PERMISSION,
            "reader may not register",
        )
        await broker.register()
        assert await broker.refused(wipe, brokerName="broker-a") == (
            ResponseCode.NO_PERMISSION,
            "broker may not admin",
        )
        answer = await boss.ok(wipe, brokerName="broker-a")
        assert answer.fields() == {"wipeTopicCount": "2"}
        await boss.register("broker-b")  # an administrator may do everything


@pytest.mark.parametrize("hook", [sign_as("broker", "wrong"), sign_as("nobody", "broker-secret")])
@in_loop
async def test_wrong_key_and_wrong_signature_are_told_the_same(
    home: Home, guarded: dict[str, str], hook: SendHook
) -> None:
    async with home.serve(**guarded) as running:
        code, remark = await running.client(before_send=[hook]).refused(RequestCode.REGISTER_BROKER)
        assert code == ResponseCode.NO_PERMISSION
        assert (remark or "").startswith("unknown access key or wrong signature: ")


@in_loop
async def test_signature_covers_fields_and_body(home: Home, guarded: dict[str, str]) -> None:
    def tamper(code: int, fields: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        return {**fields, "brokerName": "another"}

    def sign_another_body(code: int, fields: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        return signed(fields, body + b" ", "boss", "boss-secret")

    async with home.serve(**guarded) as running:
        for hooks in ([sign_as("boss"), tamper], [sign_another_body]):
            code, _ = await running.client(before_send=hooks).refused(
                RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="broker-a"
            )
            assert code == ResponseCode.NO_PERMISSION


@in_loop
async def test_question_answered_before_is_checked_again(home: Home, guarded: dict[str, str]) -> None:
    """Ready answers are not given past the check."""
    async with home.serve(**guarded, aclOpenReads="false") as running:
        await running.client(before_send=[sign_as("broker")]).register()
        reader, anyone = running.client(before_send=[sign_as("reader")]), running.client()
        for _ in range(3):
            assert await reader.route("TopicA") is not None
            assert await anyone.refused(ROUTE, topic="TopicA") == SIGNED_ONLY


@pytest.mark.parametrize(
    ("host", "is_here"),
    [
        *(("127.0.0.1", True), ("127.3.2.1", True), ("::1", True), ("::ffff:127.0.0.1", True)),
        *(("10.0.0.1", False), ("::ffff:10.0.0.1", False), ("fe80::1%eth0", False), ("0.0.0.0", False), ("", False)),
    ],
)
@in_loop
async def test_administration_can_be_limited_to_this_machine(host: str, is_here: bool) -> None:
    channel = Channel(Server(Dispatcher(), Limits()), asyncio.get_running_loop())
    channel.address = (host, 40_000)
    check = AccessCheck(None, open_reads=False, admin_from_loopback_only=True)
    check(channel, Command(ROUTE))
    check(channel, Command(RequestCode.REGISTER_BROKER))
    with nullcontext() if is_here else pytest.raises(RequestRefused, match="from this machine only"):
        check(channel, Command(RequestCode.UPDATE_NAMESRV_CONFIG))
    assert check.refused_count == (0 if is_here else 1)


@in_loop
async def test_administration_from_this_machine_works_over_the_wire(home: Home) -> None:
    async with home.serve(adminLoopbackOnly="true") as running:
        await running.client().ok(RequestCode.GET_NAMESRV_CONFIG)
        await running.client().register()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", r"holds no \[\[account\]\]"),
        ("[[account]]\naccessKey = 'a'", "secretKey"),
        ("[[account]]\naccessKey = 'a'\nsecretKey = 's'\nmay = ['everything']", "everything"),
        ("[[account]]\naccessKey = 'a'\nsecretKey = 's'\nmaj = ['read']", "maj"),
        ("[[account", "accounts.toml"),
    ],
)
def test_accounts_file_that_is_wrong_says_where(tmp_path: Path, content: str, problem: str) -> None:
    (tmp_path / "accounts.toml").write_text(content)
    with pytest.raises(ConfigError, match=problem):
        load_accounts(tmp_path / "accounts.toml")


def test_accounts_file_that_is_missing_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the accounts file"):
        load_accounts(tmp_path / "missing.toml")
