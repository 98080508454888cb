"""What our client asks of Apache's broker, beside what Apache's Java client asks: the same, where not listed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from apogeemq.client import Message
from apogeemq.model.properties import decode_properties
from apogeemq.protocol.codes import RequestCode
from apogeemq.protocol.command import Command
from tests.interop.python_world import APACHES, World, messages, played, reading, until
from tests.interop.wire_tap import WireTap

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(400),
    pytest.mark.parametrize("world", [APACHES], indirect=True),
]

GROUP = "Wire"
OWN_FIELDS = {"clientID", "g", "offset", "originMsgId", "subVersion", "a"}
"""Of one client, one message or one moment; that they are there is compared, not what they are."""

DIFFERENCES: dict[RequestCode, set[str]] = {
    # We read no JSON with keys that are not quoted; Java's client does.
    RequestCode.GET_ROUTEINFO_BY_TOPIC: {"acceptStandardJsonOnly"},
}


def asked(tap: WireTap, code: RequestCode) -> list[Command]:
    """Not of retry topics: clients find those sooner or later."""
    commands = [command for command in (*tap.asked_names, *tap.asked) if command.code == code]
    return [command for command in commands if not command.fields().get("topic", "").startswith("%RETRY%")]


def shape(command: Command) -> dict[str, Any]:
    """The fields as compared: what is a client's own is only named, properties are taken apart."""
    fields: dict[str, Any] = {
        name: "…" if name in OWN_FIELDS else value
        for name, value in command.fields().items()
        if name not in DIFFERENCES.get(RequestCode(command.code), ())
    }
    if "i" in fields:
        properties = decode_properties(fields["i"])
        if command.code == RequestCode.SEND_BATCH_MESSAGE:
            # Java names the whole batch; brokers of the 4.9 line then give that name to every message of it.
            properties.pop("UNIQ_KEY", None)
        fields["i"] = {name: "…" if name == "UNIQ_KEY" else value for name, value in properties.items()}
    return {**fields, "flag": command.flag, "version": command.version, "codec": command.codec}


def shapes(tap: WireTap, code: RequestCode) -> list[dict[str, Any]]:
    """Each once, sorted: clients ask the same thing more or less often."""
    texts = {json.dumps(shape(command), sort_keys=True) for command in asked(tap, code)}
    return [json.loads(text) for text in sorted(texts)]


@asynccontextmanager
async def behind(world: World, tap: WireTap) -> AsyncIterator[None]:
    """Clients that are started meanwhile are tapped."""
    real = world.cluster.name_server
    world.cluster.name_server = tap  # type: ignore[assignment]
    try:
        async with tap:
            yield
    finally:
        world.cluster.name_server = real


async def java_asks(world: World, topic: str, group: str) -> WireTap:
    tap = WireTap(world)
    async with behind(world, tap):
        producer = await world.java_producer()
        await world.do(producer.send, topic, {"body": "good", "tags": "T", "keys": "k"}, "bad")
        await world.do(producer.send, topic, {"body": "late", "delay": 1, "flag": 7})
        await world.do(producer.send, topic, "b1", "b2", how="batch")
        await world.do(producer.send, topic, "o1", how="oneway")
        reader = await world.java_reader(group, topic, "T || U || bad", refuse="good", refuseTimes=1)
        await world.do(reader.received, 2, deliveries=True)
        await world.do(reader.call, "persist")
        await world.do(reader.stop)
        orderly = await world.java_reader(f"{group}-o", topic, orderly=True)
        await world.do(orderly.received, 6)
        await world.do(orderly.call, "persist")
        for client in (orderly, producer):
            await world.do(client.stop)
    return tap


async def we_ask(world: World, topic: str, group: str) -> WireTap:
    tap = WireTap(world)
    async with behind(world, tap), world.producer() as producer:
        await producer.send(topic, b"good", tags="T", keys=["k"])
        await producer.send(topic, b"bad")
        await producer.send(Message(topic, b"late", delay_level=1, flag=7))
        await producer.send_batch(messages(topic, ["b1", "b2"]))
        await producer.send_one_way(Message(topic, b"o1"))
        async with reading(world.consumer(group, topic, tags="T || U || bad", offset_persist_seconds=0.1)) as inbox:
            inbox.refuses = lambda message: message.body == b"good" and not message.reconsume_times
            await until(lambda: len(inbox.messages) == 2, "it comes twice")
            await until(lambda: bool(asked(tap, RequestCode.UPDATE_CONSUMER_OFFSET)), "an offset is kept")
        async with reading(world.consumer(f"{group}-o", topic, ordered=True)) as inbox:
            await inbox.has(6)
    return tap


def subscriptions(heartbeat: dict[str, Any]) -> dict[str, Any]:
    """By topic, in any order; versions are moments."""
    (consumer,) = heartbeat["consumerDataSet"]
    return {
        entry["topic"]: {
            **entry,
            "subVersion": "…",
            "tagsSet": sorted(entry["tagsSet"]),
            "codeSet": sorted(entry["codeSet"]),
        }
        for entry in consumer["subscriptionDataSet"]
    }


@played
async def test_requests_have_the_same_fields(world: World) -> None:
    topic = await world.make_topic("wire", 1)
    theirs = await java_asks(world, topic, GROUP)
    # The same topic and group again, as if nobody had been there: only the producers' groups have other names.
    assert "success" in await world.ask(f"deleteTopic -c DefaultCluster -t {topic}")
    for group in (GROUP, f"{GROUP}-o"):
        assert "success" in await world.ask(f"deleteSubGroup -c DefaultCluster -g {group} -r true")
    await asyncio.to_thread(world.cluster.create_topic, topic, 1)
    ours = await we_ask(world, topic, GROUP)
    for code in (
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.CONSUMER_SEND_MSG_BACK,
        RequestCode.QUERY_CONSUMER_OFFSET,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP,
    ):
        assert asked(ours, code), code
        assert shapes(ours, code) == shapes(theirs, code), code
    for code in (RequestCode.PULL_MESSAGE, RequestCode.UPDATE_CONSUMER_OFFSET, RequestCode.GET_ROUTEINFO_BY_TOPIC):
        names = [{frozenset(shape(command)) for command in asked(tap, code)} for tap in (ours, theirs)]
        assert names[0] == names[1] and len(names[0]) == 1, code
    first = [asked(tap, RequestCode.PULL_MESSAGE)[0] for tap in (ours, theirs)]
    assert shape(first[0]) == shape(first[1])
    assert {command.language for command in ours.asked} == {"PYTHON"}
    check_bodies(ours, theirs, topic)


def first_of(locks: Sequence[Command], topic: str) -> dict[str, Any]:
    """The first request whose queues are of a topic."""
    bodies: Iterator[dict[str, Any]] = (json.loads(command.body) for command in locks)
    return next(body for body in bodies if {queue["topic"] for queue in body["mqSet"]} == {topic})


def check_bodies(ours: WireTap, theirs: WireTap, topic: str) -> None:
    beats = [[json.loads(command.body) for command in asked(tap, RequestCode.HEART_BEAT)] for tap in (ours, theirs)]
    of_consumers = [[beat for beat in some if beat["consumerDataSet"]] for some in beats]
    for which in (0, -1):  # of the first consumer, and of the ordered one
        mine, other = of_consumers[0][which], of_consumers[1][which]
        assert list(mine) == list(other)
        assert subscriptions(mine) == subscriptions(other)
        (my_data,), (other_data,) = mine["consumerDataSet"], other["consumerDataSet"]
        assert {**my_data, "subscriptionDataSet": []} == {**other_data, "subscriptionDataSet": []}
    for code in (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ):
        locks = [first_of(asked(tap, code), topic) for tap in (ours, theirs)]
        assert {**locks[0], "clientId": "…"} == {**locks[1], "clientId": "…"}
    batches = [asked(tap, RequestCode.SEND_BATCH_MESSAGE)[0].body for tap in (ours, theirs)]
    assert len(batches[0]) == len(batches[1])
