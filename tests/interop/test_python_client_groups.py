"""Groups of Java's consumers and ours: they share the queues, agree on who reads which, and keep the order."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, defaultdict
from typing import Any, NamedTuple

import pytest

from apogeemq.client.consuming.rebalance import STRATEGIES, sorted_ids
from tests.interop.java_cluster import Client, bodies
from tests.interop.python_world import Inbox, World, also_with_4_9, messages, played, reading, texts, until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

Member = Client | Inbox


async def assigned(world: World, member: Member, topic: str) -> list[int]:
    if isinstance(member, Inbox):
        return member.assigned(topic)
    return await world.do(member.assigned, topic)


async def shared(world: World, topic: str, queues: int, *members: Member, shares: list[int] | None = None) -> None:
    """Every queue has one owner, and each member as many as it should."""

    async def is_so() -> bool:
        owned = [await assigned(world, member, topic) for member in members]
        counts = [len(ids) for ids in owned]
        is_complete = sorted(queue_id for ids in owned for queue_id in ids) == list(range(queues))
        return is_complete and (shares is None or counts == shares)

    await until(is_so, f"the {queues} queues of {topic} are shared out")


async def all_given(world: World, *members: Member) -> list[list[str]]:
    """The bodies each member was given so far."""
    return [
        member.bodies if isinstance(member, Inbox) else bodies(await world.do(member.received, 0)) for member in members
    ]


async def given(world: World, count: int, *members: Member) -> list[list[str]]:
    """Once there are `count` different bodies in all."""
    found: list[list[str]] = []

    async def are_there() -> bool:
        found[:] = await all_given(world, *members)
        return len({body for inbox in found for body in inbox}) >= count

    await until(are_there, f"{count} messages have come")
    return found


@also_with_4_9
@played
async def test_members_join_and_leave(world: World) -> None:
    """Every message comes to one of them, once."""
    topic, group = await world.make_topic("shared", 4), world.name("mixed")
    expected: list[str] = []

    async def send(word: str) -> None:
        expected.extend(texts(40, word))
        for message in messages(topic, texts(40, word)):
            await producer.send(message)

    async with world.producer() as producer, contextlib.AsyncExitStack() as stack:
        theirs = await world.java_reader(group, topic)
        await shared(world, topic, 4, theirs, shares=[4])
        await send("Java alone")
        await given(world, 40, theirs)
        await world.settled(topic, group, theirs)

        ours = await stack.enter_async_context(reading(world.consumer(group, topic, offset_persist_seconds=0.2)))
        await shared(world, topic, 4, theirs, ours, shares=[2, 2])
        await send("both")
        (_, mine) = await given(world, 80, theirs, ours)
        assert len(mine) == 20
        await world.settled(topic, group, theirs)

        left = theirs
        await world.do(left.leave)
        await shared(world, topic, 4, ours, shares=[4])
        await send("we alone")
        await given(world, 60, ours)
        await world.settled(topic, group)

        theirs = await world.java_reader(group, topic)
        await shared(world, topic, 4, ours, theirs, shares=[2, 2])
        await send("both again")
        await given(world, 80 + 20, ours, theirs)
        await world.settled(topic, group, theirs)

        await ours.consumer.stop()
        await shared(world, topic, 4, theirs, shares=[4])
        await send("Java again")
        found = await given(world, 200, left, ours, theirs)
        assert Counter(body for inbox in found for body in inbox) == Counter(expected)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("AVG", "AllocateMessageQueueAveragely"),
        ("AVG_BY_CIRCLE", "AllocateMessageQueueAveragelyByCircle"),
        ("CONSISTENT_HASH", "AllocateMessageQueueConsistentHash"),
    ],
)
@played
async def test_every_strategy_shares_out_as_javas(world: World, ours: str, theirs: str) -> None:
    """If one member computed anything else than the others, a queue would have two owners or none."""
    topic, group = await world.make_topic("strategy", 11), world.name("mixed")
    java = [await world.java_reader(group, topic, strategy=theirs) for _ in range(2)]
    async with (
        reading(world.consumer(group, topic, rebalance=ours)) as one,
        reading(world.consumer(group, topic, rebalance=ours)) as two,
    ):
        members: tuple[Member, ...] = (*java, one, two)
        await until(lambda: _is_as_computed(world, topic, 11, ours, members), "each has its share")
        async with world.producer() as producer:
            for message in messages(topic, texts(44)):
                await producer.send(message)
        found = await given(world, 44, *members)
    assert Counter(body for inbox in found for body in inbox) == Counter(texts(44))


async def _is_as_computed(world: World, topic: str, count: int, strategy: str, members: tuple[Member, ...]) -> bool:
    """Whether everybody, Java's too, has what he should have when he knows of all of them."""
    queues = [world.queue(topic, queue_id) for queue_id in range(count)]
    ids = [_client_id(member) for member in members]
    for member, client_id in zip(members, ids, strict=True):
        share = STRATEGIES[strategy](client_id, queues, sorted_ids(ids))
        if await assigned(world, member, topic) != [queue.queue_id for queue in share]:
            return False
    return True


def _client_id(member: Member) -> str:
    if isinstance(member, Client):
        return f"127.0.0.1@{member.name}"
    instance = member.consumer._instance
    assert instance is not None
    return instance.client_id


# -- order ---------------------------------------------------------------------------------------------------


class Handling(NamedTuple):
    """One delivery, from when a listener was called until it returned; by the clock that all processes share."""

    begun: int
    ended: int
    offset: int
    body: str
    who: str


def handlings(java: list[dict[str, Any]], ours: list[Inbox]) -> dict[int, list[Handling]]:
    """By queue, in the order of time."""
    found = defaultdict(list)
    for form in java:
        one = Handling(form["begunNs"], form.get("endedNs", 2**63), form["offset"], form["body"], "Java")
        found[form["queue"]].append(one)
    for number, inbox in enumerate(ours):
        for message, begun, ended in inbox.times:
            one = Handling(begun, ended, message.queue_offset, message.body.decode(), f"ours {number}")
            found[message.queue.queue_id].append(one)
    return {queue_id: sorted(entries) for queue_id, entries in found.items()}


def check_order(by_queue: dict[int, list[Handling]]) -> None:
    """A queue is handled by one at a time; nobody begins behind what has not been handled yet."""
    for queue_id, entries in by_queue.items():
        done = -1
        for before, entry in zip([None, *entries], entries, strict=False):
            assert before is None or before.ended <= entry.begun, f"queue {queue_id}: {before} and {entry} overlap"
            assert entry.offset <= done + 1, f"queue {queue_id}: {entry} comes after offset {done}"
            done = max(done, entry.offset)


@also_with_4_9
@played
async def test_order_is_kept_when_queues_change_hands(world: World) -> None:
    """Join and leave, both ways, while there is much to do: nobody begins before the other has ended."""
    topic, group = await world.make_topic("orderly", 4), world.name("mixed")
    async with world.producer() as producer, contextlib.AsyncExitStack() as stack:

        async def send(word: str) -> None:
            for step in range(15):
                for order in range(8):
                    await producer.send(topic, f"{word} {order}/{step}".encode(), sharding_key=str(order))

        async def ours() -> Inbox:
            consumer = world.consumer(group, topic, ordered=True, offset_persist_seconds=0.2)
            return await stack.enter_async_context(reading(consumer, hold_seconds=0.02))

        await send("first")
        # Java lets go of its queues while its listeners still run, unless it is told to wait for them.
        settings = {"awaitTerminationMillisWhenShutdown": 10_000}
        theirs = await world.java_reader(group, topic, orderly=True, holdMs=20, settings=settings)
        await given(world, 20, theirs)
        one = await ours()
        await shared(world, topic, 4, theirs, one, shares=[2, 2])
        await send("second")
        before = len(one.messages)
        await until(lambda: len(one.messages) > before + 10, "we are in the midst of it")
        await one.consumer.stop()
        await shared(world, topic, 4, theirs, shares=[4])
        two = await ours()
        await shared(world, topic, 4, theirs, two, shares=[2, 2])
        await send("third")
        before = len(two.messages)
        await until(lambda: len(two.messages) > before + 10, "we are in the midst of it again")
        await world.do(theirs.leave)
        await shared(world, topic, 4, two, shares=[4])
        await given(world, 3 * 15 * 8, theirs, one, two)
        await world.settled(topic, group)
        check_order(handlings(await world.do(theirs.received, 0), [one, two]))


@pytest.mark.parametrize("leaves", [False, True], ids=["others-join", "we-leave"])
@played
async def test_nobody_begins_while_we_are_at_a_message(world: World, leaves: bool) -> None:
    """A handler that takes its time keeps its queue: a member that takes it over begins when it has ended."""
    topic, group = await world.make_topic("slow", 2), world.name("mixed")
    async with world.producer() as producer:
        for number in range(8):
            await producer.send(topic, b"%d" % number, queue=world.queue(topic, number % 2))
    consumer = world.consumer(group, topic, ordered=True)
    async with reading(consumer, hold_seconds=0.7) as ours:
        await shared(world, topic, 2, ours, shares=[2])
        await until(lambda: len(ours.messages) >= 2, "we are at a message of each queue")
        theirs = await world.java_reader(group, topic, orderly=True)
        if leaves:
            await consumer.stop()
            await shared(world, topic, 2, theirs, shares=[2])
        else:
            await shared(world, topic, 2, ours, theirs, shares=[1, 1])
        found = await given(world, 8, ours, theirs)
        check_order(handlings(await world.do(theirs.received, 0), [ours]))
    assert Counter(body for inbox in found for body in inbox) == Counter(map(str, range(8)))


# -- the broker ----------------------------------------------------------------------------------------------


@played
async def test_the_broker_is_killed_and_comes_back(world: World) -> None:
    """What was acknowledged to the producer comes to the group, through new connections."""
    topic, group = await world.make_topic("restart", 4), world.name("mixed")
    theirs = await world.java_reader(group, topic)
    sent: list[str] = []
    has_ended = asyncio.Event()

    async def keep_sending() -> None:
        number = 0
        while not has_ended.is_set():
            number += 1
            with contextlib.suppress(Exception):
                await producer.send(topic, b"message %d" % number, timeout_seconds=1)
                sent.append(f"message {number}")
            await asyncio.sleep(0.005)

    client = {"heartbeat_seconds": 600.0}  # whoever connects anew says who he is, without waiting for his turn
    async with world.producer() as producer, reading(world.consumer(group, topic, client=client)) as ours:
        await shared(world, topic, 4, theirs, ours, shares=[2, 2])
        sending = asyncio.ensure_future(keep_sending())
        await until(lambda: len(sent) >= 50, "messages flow")
        await world.restart_broker()
        count = len(sent)
        await until(lambda: len(sent) >= count + 50, "messages flow again")
        has_ended.set()
        await sending
        await shared(world, topic, 4, theirs, ours, shares=[2, 2])

        async def are_all_there() -> bool:
            return set(sent) <= {body for inbox in await all_given(world, theirs, ours) for body in inbox}

        await until(are_all_there, "all that was sent has come")
