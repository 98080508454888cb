"""Our client and a real Apache 4.9 broker that checks every signature and what each account may do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from apogeemq.client import ClientOptions, Consumer, ConsumerOptions, Message, Producer, ProducerOptions
from apogeemq.errors import NoRoute, RemoteRefused, RouteCause, SendFailed
from apogeemq.protocol.codes import ResponseCode
from tests.interop.python_world import queued
from tests.peers import apache
from tests.peers.netns import NetNamespace

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

TEST_SECONDS = 90
ACCOUNTS = """\
globalWhiteRemoteAddresses: []
accounts:
- accessKey: workers-key
  secretKey: worker-secret
  whiteRemoteAddress:
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms:
  - Open=PUB|SUB
  - ReadOnly=SUB
  groupPerms:
  - Readers=SUB
- accessKey: overseers-key
  secretKey: overseer-secret
  whiteRemoteAddress:
  admin: true
"""

WORKER = ClientOptions(access_key="workers-key", secret_key="worker-secret")
OVERSEER = ClientOptions(access_key="overseers-key", secret_key="overseer-secret")
PATIENT = ProducerOptions(send_timeout_seconds=20)
FROM_FIRST = ConsumerOptions(start_from="first")


@dataclass
class Guarded:
    netns: NetNamespace
    address: str

    def play(self, scenario: Coroutine[Any, Any, None]) -> None:
        async def in_time() -> None:
            async with asyncio.timeout(TEST_SECONDS):
                await scenario

        with self.netns.joined():
            asyncio.run(in_time())

    def producer(self, client: ClientOptions, group: str = "Writers") -> Producer:
        return Producer(self.address, group, options=PATIENT, client=client)

    def consumer(self, client: ClientOptions, group: str, topic: str) -> Consumer:
        return Consumer(self.address, group, topic, options=FROM_FIRST, client=client)


@pytest.fixture(scope="module")
def guarded(make_netns: Callable[[], NetNamespace], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Apache's servers with the topics Open and ReadOnly."""
    netns, folder = make_netns(), tmp_path_factory.mktemp("acl")
    with apache.NameServer(apache.V4, work_dir=folder / "names", netns=netns, jvm_args=apache.QUICK_START) as names:
        broker = apache.Broker(
            apache.V4,
            names.address,
            work_dir=folder / "broker",
            netns=netns,
            properties={"aclEnable": "true"},
            jvm_args=apache.QUICK_START,
        )
        Path(folder / "broker" / "home" / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
        with broker:
            world = Guarded(netns, names.address)
            world.play(make_topics(world))
            yield world


async def make_topics(world: Guarded) -> None:
    async with world.producer(OVERSEER) as producer:
        for topic in ("Open", "ReadOnly"):
            await once_routed(partial(producer.create_topic, topic, 2))
            await once_routed(partial(producer.subscribe_queues, topic))


async def once_routed(ask: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """The name server hears of brokers and topics a moment later."""
    while True:
        try:
            await ask()
            return
        except NoRoute:
            await asyncio.sleep(0.1)


def test_all_ways_to_send_are_signed(guarded: Guarded) -> None:
    async def scenario() -> None:
        async with guarded.producer(WORKER) as producer:
            first = await producer.send("Open", b"plain", keys=["k"], tags="t")
            queue = first.queue
            await producer.send("Open", "größer".encode() * 2000, queue=queue)  # compressed
            await producer.send_batch([Message("Open", b"%d" % number) for number in range(3)], queue=queue)
            await producer.send_one_way(Message("Open", b"nobody answers"), queue=queue)
            while (end := await producer.max_offset(queue)) < first.queue_offset + 6:
                await asyncio.sleep(0.05)
            assert end == first.queue_offset + 6

    guarded.play(scenario())


def test_consumers_are_signed(guarded: Guarded) -> None:
    async def scenario() -> None:
        async with guarded.producer(WORKER) as producer:
            sent = {(await producer.send("Open", b"%d" % number, keys=["x"])).message_id for number in range(8)}
            seen: set[str] = set()
            returned: set[str] = set()
            async with guarded.consumer(WORKER, "Readers", "Open") as consumer:
                while not sent <= seen:
                    message = await anext(consumer)
                    if message.message_id in sent and not returned:
                        returned.add(message.message_id)
                        await message.retry(1)  # sent back, and delivered again through the group's retry topic
                        continue
                    seen.add(message.message_id)
                    await message.ack()
            queues = await producer.subscribe_queues("Open")
            ends = {queue: await producer.max_offset(queue) for queue in queues}
            # What was consumed is committed: another member of the group gets only what comes now.
            async with guarded.consumer(WORKER, "Readers", "Open") as consumer:
                late = await producer.send("Open", b"late", queue=queues[0])
                message = await anext(consumer)
                assert (message.message_id, message.queue_offset) == (late.message_id, ends[queues[0]])
                await message.ack()

    guarded.play(scenario())


def test_questions_are_signed(guarded: Guarded) -> None:
    async def scenario() -> None:
        async with guarded.producer(WORKER) as producer:
            result = await producer.send("Open", b"asked for", keys=["question"])
            await queued(producer, result)
            assert await producer.min_offset(result.queue) == 0
            assert await producer.search_offset(result.queue, 0) == 0
            assert await producer.earliest_message_time(result.queue) > 0
            seen = await producer.view_message("Open", result.offset_id)
            assert seen is not None and seen.body == b"asked for"
        async with guarded.producer(OVERSEER) as producer:
            while not (found := await producer.query_messages("Open", "question")):
                await asyncio.sleep(0.05)  # the index follows the log
            assert [message.message_id for message in found] == [result.message_id]
            seen = await producer.view_message("Open", result.message_id)
            assert seen is not None and seen.offset_id == result.offset_id

    guarded.play(scenario())


@pytest.mark.parametrize(
    ("client", "why"),
    [
        (ClientOptions(), "No accessKey is configured"),
        (
            ClientOptions(access_key="workers-key", secret_key="not-it"),
            "Check signature failed for accessKey=workers-key",
        ),
        (ClientOptions(access_key="nobody", secret_key="whatever"), "No acl config for nobody"),
    ],
)
def test_strangers_are_refused(guarded: Guarded, client: ClientOptions, why: str) -> None:
    async def scenario() -> None:
        async with guarded.producer(client) as producer:
            with pytest.raises(SendFailed, match=why) as caught:
                await producer.send("Open", b"x")
            refused = caught.value.attempts[0]
            assert isinstance(refused, RemoteRefused) and refused.code == ResponseCode.SYSTEM_ERROR

    guarded.play(scenario())


def test_an_account_does_only_what_it_may(guarded: Guarded) -> None:
    async def scenario() -> None:
        async with guarded.producer(WORKER) as producer:
            with pytest.raises(SendFailed, match=r"AclException.*ReadOnly"):
                await producer.send("ReadOnly", b"x")
            with pytest.raises(RemoteRefused, match="admin"):
                await producer.create_topic("Another")
        async with guarded.producer(OVERSEER) as producer:
            await producer.send("ReadOnly", b"x")

    guarded.play(scenario())


def test_why_a_topic_has_no_route(guarded: Guarded) -> None:
    async def scenario() -> None:
        async with guarded.producer(WORKER) as producer:
            with pytest.raises(NoRoute) as caught:
                await producer.subscribe_queues("Unknown")
            assert caught.value.cause is RouteCause.NOT_YET

    guarded.play(scenario())
