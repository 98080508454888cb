"""What producers and consumers may ask about topics, offsets and stored messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from apogeemq.client import ClientOptions, Consumer, Message, Producer
from apogeemq.client.broker_calls import BrokerCalls, records_of
from apogeemq.errors import ConfigError, ConnectFailed, NoRoute, RemoteRefused, RequestRefused, RouteCause, WrongState
from apogeemq.model.ids import encode_host, offset_id
from apogeemq.model.queues import MessageQueue
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers.broker import PullMessage
from apogeemq.transport.channel import Channel
from tests.unit.broker.registering import free_address
from tests.unit.client.cluster import Cluster, cluster
from tests.unit.event_loop import in_loop
from tests.unit.name_servers import connections

TWO = ("broker-a", "broker-b")
NOT_WATCHING = ClientOptions(watches_routes=False)


@asynccontextmanager
async def asking(
    folder: Path, *brokers: str, client: ClientOptions | None = None
) -> AsyncIterator[tuple[Cluster, Producer]]:
    async with cluster(folder, *brokers) as it, Producer(it.address, group="P", client=client) as producer:
        yield it, producer


# -- topics --------------------------------------------------------------------------------------------------


@in_loop
async def test_a_topic_is_made_on_every_master(tmp_path: Path) -> None:
    async with asking(tmp_path, *TWO) as (it, producer):
        await producer.create_topic("T", 3, attributes={"message.type": "FIFO"})
        for name in TWO:
            made = it.brokers[name].state.topics.get("T")
            assert made is not None
            assert (made.read_queue_nums, made.write_queue_nums, made.perm) == (3, 3, 6)
            assert made.attributes == {"message.type": "FIFO"}
        await until_routed(producer, "T", 6)
        assert [(queue.broker_name, queue.queue_id) for queue in await producer.publish_queues("T")] == [
            (name, queue_id) for name in TWO for queue_id in range(3)
        ]
        assert await producer.subscribe_queues("T") == await producer.publish_queues("T")


async def until_routed(producer: Producer, topic: str, count: int) -> None:
    async def queues() -> int:
        try:
            return len(await producer.subscribe_queues(topic))
        except NoRoute:
            return 0

    while await queues() < count:
        pass


@in_loop
async def test_a_borrowed_route_gives_way_to_the_topic_that_was_made(tmp_path: Path) -> None:
    async with asking(tmp_path, client=NOT_WATCHING) as (_, producer):
        assert len(await producer.queues("T")) == 4
        await producer.create_topic("T", 7)
        await until_routed(producer, "T", 7)
        producer._running.routes.topic_made("T")
        while len(await producer.queues("T")) != 7:
            await producer._running.routes.refresh("T")


@in_loop
async def test_where_topics_are_made_is_said_by_another(tmp_path: Path) -> None:
    async with cluster(tmp_path, *TWO, autoCreateTopicEnable="false") as it:
        await it.make_topic("only-b", 1, "broker-b")
        async with Producer(it.address, group="P") as producer:
            with pytest.raises(NoRoute) as caught:
                await producer.create_topic("T")
            assert caught.value.cause is RouteCause.NO_AUTO_CREATION
            await producer.create_topic("T", like="only-b")
            assert [it.brokers[name].state.topics.get("T") is not None for name in TWO] == [False, True]
            await producer.create_topic("U", like="DefaultCluster")
            assert [it.brokers[name].state.topics.get("U") is not None for name in TWO] == [True, True]


@in_loop
async def test_one_broker_is_enough_and_none_is_an_error(tmp_path: Path) -> None:
    async with asking(tmp_path, *TWO) as (it, producer):
        asked: dict[str, int] = {}

        def refuse(name: str, code: int) -> None:
            def answer(channel: Channel, command: Command) -> bytes:
                asked[name] = asked.get(name, 0) + 1
                raise RequestRefused(code, "not here")

            dispatcher = it.brokers[name].server.dispatcher
            dispatcher.handlers.pop(RequestCode.UPDATE_AND_CREATE_TOPIC)
            dispatcher.register(RequestCode.UPDATE_AND_CREATE_TOPIC, answer)

        refuse("broker-a", ResponseCode.SYSTEM_BUSY)
        await producer.create_topic("T")
        assert it.brokers["broker-b"].state.topics.get("T") is not None
        assert asked == {"broker-a": 5}
        refuse("broker-b", ResponseCode.INVALID_PARAMETER)
        with pytest.raises(RemoteRefused, match="not here"):
            await producer.create_topic("U")
        assert asked == {"broker-a": 10, "broker-b": 1}


@pytest.mark.parametrize(
    ("topic", "queues", "why"),
    [("with space", 4, "illegal characters"), ("", 4, "blank"), ("TBW102", 4, "of the system"), ("T", 0, "one queue")],
)
def test_topics_that_may_not_be(tmp_path: Path, topic: str, queues: int, why: str) -> None:
    @in_loop
    async def run() -> None:
        async with Producer(free_address(), group="P") as producer:
            with pytest.raises(ConfigError, match=why):
                await producer.create_topic(topic, queues)

    run()


@in_loop
async def test_queues_by_permission(tmp_path: Path) -> None:
    async with asking(tmp_path) as (it, producer):
        await it.make_topic("closed", 2, perm=4)
        await it.make_topic("deaf", 2, perm=2)
        assert len(await producer.subscribe_queues("closed")) == 2
        with pytest.raises(NoRoute, match="may not be written to"):
            await producer.publish_queues("closed")
        assert len(await producer.publish_queues("deaf")) == 2
        with pytest.raises(NoRoute, match="no queue of topic deaf can be read"):
            await producer.subscribe_queues("deaf")
        for ask in (producer.publish_queues("unknown"), producer.subscribe_queues("unknown")):
            with pytest.raises(NoRoute, match="does not exist"):
                await ask
        assert producer._running.routes.topics == []  # asking once is no interest


@in_loop
async def test_topics_are_listed_by_name(tmp_path: Path) -> None:
    async with asking(tmp_path) as (it, producer):
        for topic in ("B", "A", "NS%C"):
            await it.make_topic(topic, 1)
            await until_routed(producer, topic, 1)
        listed = await producer.list_topics()
        assert [name for name in listed if name in ("A", "B", "NS%C")] == ["A", "B", "NS%C"]
        assert "TBW102" in listed
        async with Producer(it.address, group="Q", client=ClientOptions(namespace="NS")) as tenant:
            assert {"A", "B", "C"} & set(await tenant.list_topics()) == {"C"}


# -- offsets -------------------------------------------------------------------------------------------------


@in_loop
async def test_offsets_of_a_queue(tmp_path: Path) -> None:
    async with asking(tmp_path) as (it, producer):
        await it.make_topic("T", 2)
        queue = it.queue("T", 1)
        assert (await producer.min_offset(queue), await producer.max_offset(queue)) == (0, 0)
        assert await producer.earliest_message_time(queue) == -1
        for number in range(4):
            await producer.send("T", b"%d" % number, queue=queue)
        assert (await producer.min_offset(queue), await producer.max_offset(queue)) == (0, 4)
        times = [
            message.store_time_ms
            for message in [await producer.view_message("T", await place(it, queue, number)) for number in range(4)]
            if message is not None
        ]
        assert await producer.earliest_message_time(queue) == times[0]
        assert await producer.search_offset(queue, times[0]) == 0
        assert await producer.search_offset(queue, times[0], is_upper=True) == times.count(times[0]) - 1
        assert await producer.search_offset(queue, times[-1]) == times.index(times[-1])
        with pytest.raises(NoRoute, match="broker nobody has no master") as caught:
            await producer.max_offset(MessageQueue("nobody", 0, "T"))
        assert caught.value.cause is RouteCause.BROKER_UNKNOWN


async def place(where: Cluster, queue: MessageQueue, offset: int) -> str:
    """The id of a stored message."""
    async with connections() as pool:
        header = PullMessage("READ", queue.topic, queue.queue_id, offset, 1, 4, subscription="*")
        answer = await BrokerCalls(pool, 5.0).pull(where.brokers[queue.broker_name].address, header, 5)
    (record,) = records_of(answer.records)
    return offset_id(record.store_host, record.physical_offset)


# -- messages ------------------------------------------------------------------------------------------------


@in_loop
async def test_a_message_is_seen_by_either_id(tmp_path: Path) -> None:
    async with asking(tmp_path, *TWO) as (it, producer):
        for name in TWO:
            await it.make_topic("T", 1, name)
        body = b"compressed" * 1000
        results = [await producer.send("T", body, tags="t", keys=["k"]) for _ in range(2)]
        for result in results:
            for message_id in (result.offset_id, result.message_id):
                seen = await producer.view_message("T", message_id)
                assert seen is not None
                assert (seen.message_id, seen.offset_id) == (result.message_id, result.offset_id)
                assert (seen.topic, seen.queue, seen.queue_offset) == ("T", result.queue, result.queue_offset)
                assert (seen.body, seen.tags, seen.keys) == (body, "t", ["k"])


@in_loop
async def test_messages_that_are_not_there(tmp_path: Path) -> None:
    async with asking(tmp_path) as (it, producer):
        await it.make_topic("T", 1)
        await it.make_topic("U", 1)
        result = await producer.send("T", b"x")
        host, port = it.broker_address.split(":")
        nowhere = offset_id(encode_host(bytes(map(int, host.split("."))), int(port)), 10**9)
        no_port = free_address().split(":")[1]
        elsewhere = offset_id(encode_host(bytes((127, 0, 0, 1)), int(no_port)), 0)
        for message_id in (nowhere, elsewhere, "7F" * 16, "not an id"):
            assert await producer.view_message("T", message_id) is None
        assert await producer.view_message("U", result.offset_id) is None  # it is another topic's
        with pytest.raises(NoRoute):
            await producer.view_message("unknown", result.offset_id)


@in_loop
async def test_messages_of_a_key_from_all_brokers(tmp_path: Path) -> None:
    async with asking(tmp_path, *TWO) as (it, producer):
        for name in TWO:
            await it.make_topic("T", 2, name)
        results = [await producer.send("T", b"%d" % number, keys=["k", f"k{number}"]) for number in range(8)]
        await producer.send("U", b"another topic", keys=["k"])
        assert {result.queue.broker_name for result in results} == set(TWO)
        found = await producer.query_messages("T", "k")
        assert sorted(message.body for message in found) == [b"%d" % number for number in range(8)]
        times = [message.store_time_ms for message in found]
        assert times == sorted(times)
        assert [message.body for message in await producer.query_messages("T", "k5")] == [b"5"]
        assert await producer.query_messages("T", "unknown") == []
        assert len(await producer.query_messages("T", "k", max_count=3)) == 3
        assert await producer.query_messages("T", "k", end_ms=times[0] - 10_000) == []
        assert len(await producer.query_messages("T", "k", begin_ms=times[0], end_ms=times[-1])) == 8


@in_loop
async def test_a_broker_that_does_not_answer(tmp_path: Path) -> None:
    async with cluster(tmp_path, "broker-a") as it:
        leaving = await it.add_broker("broker-b")
        async with Producer(it.address, group="P", client=NOT_WATCHING) as producer:
            for name in TWO:
                await it.make_topic("T", 1, name)
            await producer.send("T", b"x", keys=["k"], queue=it.queue("T"))
            await leaving.aclose()
            assert [message.body for message in await producer.query_messages("T", "k")] == [b"x"]
            with pytest.raises(ConnectFailed):  # it cannot be said that there is none
                await producer.query_messages("T", "other")


# -- whoever asks --------------------------------------------------------------------------------------------


@in_loop
async def test_consumers_ask_the_same(tmp_path: Path) -> None:
    async with asking(tmp_path) as (it, producer):
        await it.make_topic("T", 2)
        result = await producer.send("T", b"x", keys=["k"])
        async with Consumer(it.address, group="G", topic="T") as consumer:
            assert len(await consumer.subscribe_queues("T")) == 2
            assert await consumer.max_offset(result.queue) == 1
            assert [message.body for message in await consumer.query_messages("T", "k")] == [b"x"]


@in_loop
async def test_namespaces_are_not_seen(tmp_path: Path) -> None:
    async with asking(tmp_path, client=ClientOptions(namespace="NS")) as (it, producer):
        await producer.create_topic("T", 2)
        assert it.state.topics.get("NS%T") is not None
        await until_routed(producer, "T", 2)
        queues = await producer.publish_queues("T")
        assert {queue.topic for queue in (*queues, *await producer.subscribe_queues("T"))} == {"T"}
        result = await producer.send("T", b"x", keys=["k"], queue=by_name)
        assert await producer.max_offset(result.queue) == 1
        assert await producer.min_offset(result.queue) == await producer.search_offset(result.queue, 0) == 0
        assert await producer.earliest_message_time(result.queue) > 0
        for message in (
            *await producer.query_messages("T", "k"),
            await producer.view_message("T", result.message_id),
            await producer.view_message("T", result.offset_id),
        ):
            assert message is not None
            assert (message.topic, message.queue) == ("T", result.queue)


def by_name(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
    """A selector that looks at names."""
    assert message.topic == "T"
    (found,) = [queue for queue in queues if queue == MessageQueue("broker-a", 1, "T")]
    return found


@in_loop
async def test_only_while_running() -> None:
    producer = Producer(free_address(), group="P")
    consumer = Consumer(free_address(), group="G", topic="T")
    for who in (producer, consumer):
        with pytest.raises(WrongState, match="not running"):
            await who.max_offset(MessageQueue("broker-a", 0, "T"))
        with pytest.raises(WrongState, match="not running"):
            await who.query_messages("T", "k")


@in_loop
async def test_attributes_of_a_topic(tmp_path: Path) -> None:
    async with asking(tmp_path) as (it, producer):
        await producer.create_topic("T", attributes={"cleanup.policy": "COMPACTION"})
        queue = MessageQueue("broker-a", 0, "T")
        assert await producer.topic_attributes(queue) == {"cleanup.policy": "COMPACTION"}
        await it.make_topic("U")
        assert await producer.topic_attributes(MessageQueue("broker-a", 0, "U")) == {}


@in_loop
async def test_a_broker_says_how_it_is(tmp_path: Path) -> None:
    async with asking(tmp_path) as (it, producer):
        await it.make_topic("T")
        figures = await producer.broker_figures(MessageQueue("broker-a", 0, "T"))
        assert (figures["brokerActive"], figures["dispatchBehindBytes"]) == ("true", "0")
        assert int(figures["commitLogMaxOffset"]) >= 0
