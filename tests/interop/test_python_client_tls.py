"""Our client and Apache's servers that take nothing but TLS, and want a certificate of whoever connects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme

from apogeemq.client import ClientOptions, Consumer, ConsumerOptions, Producer, ProducerOptions
from apogeemq.errors import NoRoute, RouteCause
from tests.peers import apache
from tests.peers.identities import write_identity
from tests.peers.netns import NetNamespace

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

TEST_SECONDS = 90
PATIENT = ProducerOptions(send_timeout_seconds=20)


@dataclass
class Enforcing:
    netns: NetNamespace
    address: str
    folder: Path

    def play(self, scenario: Coroutine[Any, Any, None]) -> None:
        async def in_time() -> None:
            async with asyncio.timeout(TEST_SECONDS):
                await scenario

        with self.netns.joined():
            asyncio.run(in_time())

    def options(self, *, with_certificate: bool, trusts: str = "ca.pem") -> ClientOptions:
        own = {
            "tls.client.certPath": str(self.folder / "client.pem"),
            "tls.client.keyPath": str(self.folder / "client.key"),
        }
        return ClientOptions(
            tls={
                "tls.enable": "true",
                "tls.test.mode.enable": "false",
                "tls.client.authServer": "true",
                "tls.client.trustCertPath": str(self.folder / trusts),
                **(own if with_certificate else {}),
            }
        )


def flags(folder: Path, *, wants_certificate: bool) -> tuple[str, ...]:
    """Of a server, and of its own connections to others."""
    keys = {
        "tls.enable": "true",
        "tls.test.mode.enable": "false",
        "tls.server.mode": "enforcing",
        "tls.server.certPath": folder / "server.pem",
        "tls.server.keyPath": folder / "server.key",
        "tls.server.trustCertPath": folder / "ca.pem",
        "tls.client.authServer": "true",
        "tls.client.certPath": folder / "server.pem",
        "tls.client.keyPath": folder / "server.key",
        "tls.client.trustCertPath": folder / "ca.pem",
        **({"tls.server.need.client.auth": "require", "tls.server.authClient": "true"} if wants_certificate else {}),
    }
    return (*apache.QUICK_START, *(f"-D{key}={value}" for key, value in keys.items()))


@pytest.fixture(scope="module", params=["server", "mutual"])
def enforcing(
    request: pytest.FixtureRequest, make_netns: Callable[[], NetNamespace], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Enforcing]:
    netns, folder = make_netns(), tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    trustme.CA().cert_pem.write_to_path(str(folder / "other.pem"))
    for name in ("server", "client"):
        write_identity(authority, folder, name)
    told = flags(folder, wants_certificate=request.param == "mutual")
    with (
        apache.NameServer(apache.V5, work_dir=folder / "names", netns=netns, jvm_args=told) as names,
        apache.Broker(apache.V5, names.address, work_dir=folder / "broker", netns=netns, jvm_args=told),
    ):
        yield Enforcing(netns, names.address, folder)


def test_a_message_there_and_back(enforcing: Enforcing, request: pytest.FixtureRequest) -> None:
    is_mutual = "mutual" in request.node.name

    async def scenario() -> None:
        client = enforcing.options(with_certificate=is_mutual)
        async with Producer(enforcing.address, "P", options=PATIENT, client=client) as producer:
            while True:
                try:
                    await producer.create_topic("T", 1)
                    await producer.publish_queues("T")
                    break
                except NoRoute:  # the name server hears of it a moment later
                    await asyncio.sleep(0.1)
            sent = [await producer.send("T", b"x" * size) for size in (1, 100_000)]
            options = ConsumerOptions(start_from="first")
            async with Consumer(enforcing.address, "G", "T", options=options, client=client) as consumer:
                for result in sent:
                    message = await anext(consumer)
                    assert message.message_id == result.message_id
                    await message.ack()

    enforcing.play(scenario())


def test_who_is_not_trusted_is_not_spoken_to(enforcing: Enforcing, request: pytest.FixtureRequest) -> None:
    is_mutual = "mutual" in request.node.name
    strangers = [ClientOptions(), enforcing.options(with_certificate=True, trusts="other.pem")]
    if is_mutual:
        strangers.append(enforcing.options(with_certificate=False))

    async def scenario() -> None:
        for client in strangers:
            async with Producer(enforcing.address, "P", options=PATIENT, client=client) as producer:
                with pytest.raises(NoRoute) as caught:
                    await producer.send("T", b"x")
                assert caught.value.cause is RouteCause.NO_NAME_SERVER

    enforcing.play(scenario())
