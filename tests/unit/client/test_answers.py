"""What a client answers its brokers, asked by administrators through a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from apogeemq.client import ConsumedMessage, Consumer, ConsumerOptions, Producer
from apogeemq.protocol import javajson
from apogeemq.protocol.bodies.clients import encode_reset_offset_list, encode_reset_offsets
from apogeemq.protocol.codes import RequestCode, ResponseCode
from tests.unit.broker.handlers.members import Member
from tests.unit.client.cluster import FROM_FIRST, Cluster, cluster, eventually, named
from tests.unit.client.consuming.programs import fill, settled, taken
from tests.unit.event_loop import in_loop

CLIENT = named("me", client_ip="10.1.1.1")
CLIENT_ID = "10.1.1.1@me"


def administrator(where: Cluster) -> Member:
    return where.brokers["broker-a"].member("administrator")


@asynccontextmanager
async def consuming(where: Cluster, **more: Any) -> AsyncIterator[Consumer]:
    given = {"group": "G", "topic": "T", "options": FROM_FIRST, "client": CLIENT, **more}
    async with Consumer(where.address, **given) as consumer:
        await settled(consumer)
        yield consumer


# -- running info --------------------------------------------------------------------------------------------


async def running_info(where: Cluster, group: str = "G", **fields: str) -> Any:
    answer = await administrator(where).ok(
        RequestCode.GET_CONSUMER_RUNNING_INFO, consumerGroup=group, clientId=CLIENT_ID, **fields
    )
    return javajson.parse(answer.body)


@in_loop
async def test_how_a_consumer_is_doing(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 5, queues=1, tags="paid")
        async with consuming(it, tags="paid || new") as consumer:
            messages = await taken(consumer, 5)
            for message in messages[:2]:
                await message.ack()
            info = await running_info(it)
            properties = info["properties"]
            assert (properties["PROP_CONSUME_TYPE"], properties["PROP_CONSUMEORDERLY"]) == (
                "CONSUME_PASSIVELY",
                "false",
            )
            assert properties["PROP_NAMESERVER_ADDR"] == f"{it.address};"
            assert properties["PROP_CLIENT_VERSION"] == "V5_5_0"
            assert 0 < int(properties["PROP_CONSUMER_START_TIMESTAMP"]) <= it.state.now_ms()
            assert properties["consumerGroup"] == "G"
            assert [one["topic"] for one in info["subscriptionSet"]] == ["%RETRY%G", "T"]
            assert info["subscriptionSet"][1]["tagsSet"] == ["new", "paid"]
            queues = {(queue["topic"], queue["queueId"]): told for queue, told in info["mqTable"]}
            assert set(queues) == {("T", 0), ("%RETRY%G", 0)}
            told = queues["T", 0]
            assert (told["commitOffset"], told["cachedMsgCount"]) == (2, 3)
            assert (told["cachedMsgMinOffset"], told["cachedMsgMaxOffset"], told["droped"]) == (2, 4, False)
            assert told["lastPullTimestamp"] > 0 and told["lastConsumeTimestamp"] > 0
            status = info["statusTable"]["T"]
            assert status["pullTPS"] == pytest.approx(5 / 60)
            assert status["consumeOKTPS"] == pytest.approx(2 / 60)
            assert "jstack" not in info


@in_loop
async def test_failures_are_counted(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 1, queues=1)
        async with consuming(it) as consumer:
            await (await anext(consumer)).retry()
            status = (await running_info(it))["statusTable"]["T"]
            assert (status["consumeFailedMsgs"], status["consumeOKTPS"]) == (1, 0)


@in_loop
async def test_an_ordered_consumer_says_so_and_tells_of_its_locks(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        async with consuming(it, ordered=True):
            info = await running_info(it)
            assert info["properties"]["PROP_CONSUMEORDERLY"] == "true"
            assert all(told["locked"] and told["lastLockTimestamp"] for _, told in info["mqTable"])


@in_loop
async def test_stacks_of_tasks_and_threads(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        async with consuming(it):
            stacks = (await running_info(it, jstackEnable="true"))["jstack"]
            assert "QueueReader._run" in stacks and "queue_reader.py" in stacks and "MainThread" in stacks


@in_loop
async def test_a_group_that_is_not_here(tmp_path: Path) -> None:
    """The broker has heard of it; the client has left it a moment ago."""
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        async with consuming(it) as consumer:
            assert consumer._instance is not None
            members = consumer._instance.consumers
            member = members.pop("G")
            administers = administrator(it)
            for code in (RequestCode.GET_CONSUMER_RUNNING_INFO, RequestCode.CONSUME_MESSAGE_DIRECTLY):
                async with Producer(it.address, group="P") as producer:
                    sent = await producer.send("T", b"x")
                assert await administers.refused(
                    code, consumerGroup="G", clientId=CLIENT_ID, msgId=sent.offset_id, topic="T"
                ) == (ResponseCode.SYSTEM_ERROR, "The Consumer Group <G> not exist in this consumer")
            members["G"] = member


@in_loop
async def test_a_request_nobody_knows(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        async with consuming(it):
            (client,) = it.state.clients.consumer_group("G").clients.values()  # type: ignore[union-attr]
            answer = await client.channel.request(9999, {}, timeout_seconds=5.0)
            assert (answer.code, answer.remark) == (3, " request type 9999 not supported")


# -- one message at once -------------------------------------------------------------------------------------


async def consume_directly(where: Cluster, offset_id: str) -> Any:
    answer = await administrator(where).ok(
        RequestCode.CONSUME_MESSAGE_DIRECTLY, consumerGroup="G", clientId=CLIENT_ID, msgId=offset_id, topic="T"
    )
    return msgspec.json.decode(answer.body)


@in_loop
async def test_a_message_is_given_to_the_handler_directly(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it, Producer(it.address, group="P") as producer:
        await it.make_topic("T", 1)
        async with consuming(it) as consumer:
            seen: list[ConsumedMessage] = []

            @consumer.on_message
            async def handle(message: ConsumedMessage) -> None:
                seen.append(message)
                if message.tags == "bad":
                    raise ValueError("no such order")
                if message.tags == "later":
                    await message.retry()

            sent = {tags: await producer.send("T", b"x", tags=tags) for tags in ("good", "bad", "later")}
            result = await consume_directly(it, sent["good"].offset_id)
            assert result.pop("spentTimeMills") >= 0
            assert result == {"autoCommit": True, "consumeResult": "CR_SUCCESS", "order": False}
            result = await consume_directly(it, sent["bad"].offset_id)
            assert (result["consumeResult"], result["remark"]) == ("CR_THROW_EXCEPTION", "ValueError: no such order")
            assert (await consume_directly(it, sent["later"].offset_id))["consumeResult"] == "CR_LATER"
            assert [(message.topic, message.body, message.queue.broker_name) for message in seen] == [
                ("T", b"x", "broker-a")
            ] * 3
        assert it.committed("G", "T").get(0, 0) == 0  # nothing of it counts as consumed
        assert it.state.store.queue("%RETRY%G", 0).max_offset == 0


@in_loop
async def test_a_program_without_a_handler_says_so(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it, Producer(it.address, group="P") as producer:
        await it.make_topic("T", 1)
        async with consuming(it, ordered=True):
            result = await consume_directly(it, (await producer.send("T", b"x")).offset_id)
            assert (result["consumeResult"], result["order"]) == ("CR_RETURN_NULL", True)
            assert "no handler" in result["remark"]


# -- offsets -------------------------------------------------------------------------------------------------


@in_loop
async def test_how_far_a_consumer_is(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 4, queues=2)
        async with consuming(it) as consumer:
            for message in await taken(consumer, 4):
                await message.ack()
            for topic, expected in (("T", {0: 2, 1: 2}), ("other", {})):
                answer = await administrator(it).ok(
                    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, topic=topic, group="G", clientAddr=CLIENT_ID
                )
                table = javajson.parse(answer.body)["consumerTable"][CLIENT_ID]
                assert {queue["queueId"]: offset for queue, offset in table or ()} == expected


@pytest.mark.parametrize("is_ordered", [False, True])
@pytest.mark.parametrize("is_server_side", [False, True])
def test_offsets_are_set(tmp_path: Path, is_ordered: bool, is_server_side: bool) -> None:
    """A broker tells its consumers, who go back and say so; or it keeps the offset itself and gives it to whoever
    pulls next."""

    async def run() -> None:
        async with cluster(tmp_path, useServerSideResetOffset=str(is_server_side).lower()) as it:
            await fill(it, "T", 6, queues=2)
            async with consuming(it, ordered=is_ordered) as consumer:
                assert await acknowledged(consumer, 6) == [b"%d" % number for number in range(6)]
                await consumer._offsets.persist()  # type: ignore[union-attr]
                await eventually(lambda: it.committed("G", "T") == {0: 3, 1: 3})
                await administrator(it).ok(
                    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, topic="T", group="G", timestamp="0", isForce="true"
                )
                assert await acknowledged(consumer, 6) == [b"%d" % number for number in range(6)]
            assert it.committed("G", "T") == {0: 3, 1: 3}

    asyncio.run(run())


async def acknowledged(consumer: Consumer, count: int) -> list[bytes]:
    bodies = []
    for _ in range(count):
        message = await anext(consumer)
        bodies.append(message.body)
        await message.ack()
    return sorted(bodies)


@in_loop
async def test_what_was_out_when_offsets_were_set_does_not_count(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 3, queues=1)
        async with consuming(it) as consumer:
            out = await taken(consumer, 3)
            await out[0].ack()
            await tell(it, {it.queue("T"): 1, it.queue("T", 7): 5, it.queue("other"): 5})
            again = await taken(consumer, 2)
            assert [message.queue_offset for message in again] == [1, 2]
            for message in out[1:]:
                await message.ack()  # of before: it counts no more
            assert consumer._offsets is not None and consumer._offsets.known(it.queue("T")) == 1
            await again[0].ack()
        assert it.committed("G", "T") == {0: 2}


@in_loop
async def test_the_next_message_of_an_ordered_queue_waits_though_offsets_were_set(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 3, queues=1)
        async with consuming(it, ordered=True) as consumer:
            for _ in range(2):
                await (await anext(consumer)).ack()
            out = await anext(consumer)
            assert out.queue_offset == 2
            await tell(it, {it.queue("T"): 0})
            waiting = asyncio.ensure_future(anext(consumer))
            await eventually(lambda: consumer._offsets is not None and consumer._offsets.known(it.queue("T")) == 0)
            reader = consumer._membership.readers[it.queue("T")]  # type: ignore[union-attr]
            await eventually(lambda: len(reader.process) == 3)
            assert not waiting.done()
            await out.ack()
            assert (await waiting).queue_offset == 0


@in_loop
async def test_offsets_in_a_list_and_bytes_that_are_none(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 2, queues=1)
        async with consuming(it) as consumer:
            for message in await taken(consumer, 2):
                await message.ack()
            for body in (b"nonsense", b'{"offsetTable":[{"offset":"x"}]}', b""):
                await tell(it, body)
            await tell(it, encode_reset_offset_list({it.queue("T"): 1}))
            assert (await anext(consumer)).queue_offset == 1


@in_loop
async def test_offsets_of_a_broadcasting_consumer_are_set_in_its_file(tmp_path: Path) -> None:
    options = ConsumerOptions(start_from="first", is_broadcasting=True, local_offset_dir=str(tmp_path / "offsets"))
    async with cluster(tmp_path) as it:
        await fill(it, "T", 2, queues=1)
        async with consuming(it, options=options) as consumer:
            for message in await taken(consumer, 2):
                await message.ack()
            await tell(it, {it.queue("T"): 1})
            assert (await anext(consumer)).queue_offset == 1
            await eventually(lambda: kept_in(tmp_path / "offsets") == [1])


def kept_in(folder: Path) -> list[int]:
    files = list(folder.rglob("offsets.json"))
    return [offset for _, offset in javajson.parse(files[0].read_bytes())["offsetTable"]] if files else []


async def tell(where: Cluster, offsets: Any) -> None:
    """The broker tells the consumer to go on from these."""
    group = where.state.clients.consumer_group("G")
    assert group is not None
    body = offsets if isinstance(offsets, bytes) else encode_reset_offsets(offsets)
    for client in group.clients.values():
        client.channel.send_one_way(
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET, {"topic": "T", "group": "G", "timestamp": "0"}, body
        )
