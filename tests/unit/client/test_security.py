"""Servers that want TLS, a certificate of the client, or signatures; and ports and addresses that are others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from apogeemq.client import ClientOptions, Consumer, ConsumerOptions, Producer
from apogeemq.errors import NoRoute, RemoteRefused, RouteCause
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.signing import signed
from apogeemq.transport.broker_registration import BrokerIdentity
from apogeemq.transport.channel import Channel
from apogeemq.transport.pool import ConnectionPool
from apogeemq.transport.server import Server
from tests.peers.process import free_port
from tests.unit.client.cluster import Cluster, cluster, eventually
from tests.unit.event_loop import in_loop
from tests.unit.name_servers import name_server, register, topics
from tests.unit.transport.certificates import Authority

ACCOUNTS = """
[[account]]
accessKey = "reader"
secretKey = "reader-secret"

[[account]]
accessKey = "broker"
secretKey = "broker-secret"
may = ["read", "register"]
"""


async def there_and_back(where: Cluster, client: ClientOptions) -> None:
    """A message goes through a producer and a consumer."""
    async with Producer(where.address, group="P", client=client) as producer:
        await producer.create_topic("T", 1)
        result = await producer.send("T", b"x")
        options = ConsumerOptions(start_from="first")
        async with Consumer(where.address, group="G", topic="T", options=options, client=client) as consumer:
            message = await anext(consumer)
            assert message.message_id == result.message_id
            await message.ack()


# -- TLS -----------------------------------------------------------------------------------------------------


def serving_tls(authority: Authority, *, wants_certificate: bool) -> dict[str, str]:
    """Keys of a server that takes nothing else, and of its own connections to other servers."""
    return {
        **authority.side("server", "server"),
        **authority.side("client", "broker"),
        "tls.server.mode": "enforcing",
        "tls.test.mode.enable": "false",
        "tls.enable": "true",
        "tls.client.authServer": "true",
        **({"tls.server.need.client.auth": "require", "tls.server.authClient": "true"} if wants_certificate else {}),
    }


def trusting(authority: Authority, more: Mapping[str, str] | None = None) -> ClientOptions:
    return ClientOptions(
        tls={
            "tls.enable": "true",
            "tls.test.mode.enable": "false",
            "tls.client.authServer": "true",
            "tls.client.trustCertPath": str(authority.trust_path),
            **(more or {}),
        }
    )


@in_loop
async def test_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    servers = serving_tls(authority, wants_certificate=False)
    async with cluster(tmp_path, names=servers, **servers) as it:
        await there_and_back(it, trusting(authority))
        (tmp_path / "other").mkdir()
        for client, why in (
            (trusting(Authority(tmp_path / "other")), "certificate verify failed"),
            (ClientOptions(), "no name server answered"),  # plain text
        ):
            async with Producer(it.address, group="P", client=client) as producer:
                with pytest.raises(NoRoute, match=why) as caught:
                    await producer.send("T", b"x")
                assert caught.value.cause is RouteCause.NO_NAME_SERVER


@in_loop
async def test_both_sides_show_a_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    servers = serving_tls(authority, wants_certificate=True)
    async with cluster(tmp_path, names=servers, **servers) as it:
        await there_and_back(it, trusting(authority, authority.side("client", "client")))
        async with Producer(it.address, group="P", client=trusting(authority)) as producer:
            with pytest.raises(NoRoute) as caught:
                await producer.send("T", b"x")
            assert caught.value.cause is RouteCause.NO_NAME_SERVER


# -- signatures ----------------------------------------------------------------------------------------------


def fields_of(where: Cluster) -> dict[int, dict[str, str]]:
    """Of the last request of each kind that a broker gets from now on."""
    seen: dict[int, dict[str, str]] = {}

    def note(channel: Channel, command: Command) -> None:
        seen[command.code] = dict(command.fields())

    where.brokers["broker-a"].server.dispatcher.before.append(note)
    return seen


@in_loop
async def test_every_request_to_a_broker_is_signed(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        seen = fields_of(it)
        client = ClientOptions(access_key="someone", secret_key="secret", security_token="token")
        await there_and_back(it, client)
        await eventually(lambda: RequestCode.UNREGISTER_CLIENT in seen)
        asked = {code for code, fields in seen.items() if fields.get("AccessKey") == "someone"}
        assert asked >= {
            RequestCode.SEND_MESSAGE_V2,
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            RequestCode.HEART_BEAT,
            RequestCode.PULL_MESSAGE,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP,
            RequestCode.UNREGISTER_CLIENT,
        }
        for code in asked:
            fields = seen[code]
            assert fields["SecurityToken"] == "token"
            if code == RequestCode.UPDATE_AND_CREATE_TOPIC:  # has no body
                plain = {name: value for name, value in fields.items() if name not in OF_THE_SIGNATURE}
                assert signed(plain, b"", "someone", "secret", "token")["Signature"] == fields["Signature"]


OF_THE_SIGNATURE = ("AccessKey", "SecurityToken", "Signature")


@in_loop
async def test_a_name_server_that_checks(tmp_path: Path) -> None:
    accounts = tmp_path / "accounts.toml"
    accounts.write_text(ACCOUNTS)
    guarded = {"aclEnable": "true", "aclAccountsFile": str(accounts), "aclOpenReads": "false"}
    async with cluster(tmp_path / "open") as it, name_server(tmp_path / "guarded", guarded) as (_, address):
        await it.make_topic("T", 1)
        pool = ConnectionPool(before_send=[lambda code, fields, body: signed(fields, body, "broker", "broker-secret")])
        identity = BrokerIdentity("c", "broker-a", 0, it.broker_address, it.broker_address)
        await register(pool, address, identity, topics("T", "U", queues=1))
        known = ClientOptions(access_key="reader", secret_key="reader-secret")
        async with Producer(address, group="P", client=known) as producer:
            await producer.send("T", b"x")
        for stranger in (ClientOptions(), ClientOptions(access_key="reader", secret_key="wrong")):
            async with Producer(address, group="P", client=stranger) as producer:
                with pytest.raises(RemoteRefused) as caught:
                    await producer.send("T", b"x")
                assert caught.value.code == ResponseCode.NO_PERMISSION
        await pool.close()


@in_loop
async def test_keys_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APOGEE_ACCESS_KEY", "from-environment")
    monkeypatch.setenv("APOGEE_SECRET_KEY", "secret")
    async with cluster(tmp_path) as it, Producer(it.address, group="P") as producer:
        seen = fields_of(it)
        await producer.send("T", b"x")
        assert seen[RequestCode.SEND_MESSAGE_V2]["AccessKey"] == "from-environment"


# -- other addresses and ports -------------------------------------------------------------------------------


@in_loop
async def test_everything_goes_through_the_address_map(tmp_path: Path) -> None:
    async with cluster(tmp_path, brokerIP1="10.77.0.1") as it:
        port = it.broker_address.rpartition(":")[2]
        await there_and_back(it, ClientOptions(address_map={f"10.77.0.1:{port}": it.broker_address}))


@in_loop
async def test_the_second_port_takes_all_but_pulls_and_heartbeats(tmp_path: Path) -> None:
    port = free_port(-2, 1)
    async with cluster(tmp_path, listenPort=str(port), fastPortEnable="true") as it:
        broker = it.brokers["broker-a"].broker
        first, second = asked_of(broker.server), asked_of(broker.fast_server)
        await there_and_back(it, ClientOptions(uses_vip_channel=True))
        assert second >= {
            RequestCode.SEND_MESSAGE_V2,
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP,
            RequestCode.QUERY_CONSUMER_OFFSET,
        }
        only_first = {RequestCode.PULL_MESSAGE, RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT}
        assert first >= only_first
        assert not second & only_first


def asked_of(server: Server) -> set[int]:
    asked: set[int] = set()

    def note(channel: Channel, command: Command) -> None:
        asked.add(command.code)

    server.dispatcher.before.append(note)
    return asked
