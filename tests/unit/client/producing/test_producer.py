"""Producers with brokers of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from apogeemq.client import ClientOptions, Message, MessageQueue, Producer, ProducerOptions, SendResult, SendStatus
from apogeemq.client.broker_calls import records_of
from apogeemq.errors import (
    ConfigError,
    MessageIllegal,
    NoRoute,
    RemoteRefused,
    SendFailed,
    WrongState,
)
from apogeemq.filter.tags import java_hash
from apogeemq.model.properties import decode_properties
from apogeemq.protocol.batch import encode_batch
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.headers.broker import PullMessage
from apogeemq.protocol.record import Record
from tests.unit.broker.registering import free_address
from tests.unit.client.cluster import Cluster, client_tasks, cluster, eventually, named
from tests.unit.client.producing.tampering import hold_sends, refuse_sends
from tests.unit.event_loop import in_loop


async def stored(producer: Producer, where: Cluster, queue: MessageQueue) -> list[Record]:
    header = PullMessage("READ", queue.topic, queue.queue_id, 0, 32, 4, subscription="*")
    address = where.brokers[queue.broker_name].address
    answer = await producer._running.calls.pull(address, header, 5)
    return records_of(answer.records)


async def all_stored(producer: Producer, where: Cluster, topic: str) -> list[bytes]:
    found = []
    for queue in await producer.queues(topic):
        found += [record.body for record in await stored(producer, where, queue)]
    return found


# -- one message ---------------------------------------------------------------------------------------------


@in_loop
async def test_a_message_arrives_as_it_was_sent(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it, Producer(it.address, group="P") as producer:
        result = await producer.send("orders", b"hello", tags="paid", keys=["42"], properties={"mine": "yes"})
        assert (result.status, result.queue.topic, result.queue_offset) == (SendStatus.SEND_OK, "orders", 0)
        (record,) = await stored(producer, it, result.queue)
        properties = decode_properties(record.properties.decode())
        assert record.body == b"hello"
        assert (properties["TAGS"], properties["KEYS"], properties["mine"]) == ("paid", "42", "yes")
        assert properties["UNIQ_KEY"] == result.message_id
        assert it.state.topics.get("orders") is not None  # made by the first message, with the producer's queues
        assert len(await producer.queues("orders")) == 4


@in_loop
async def test_queues_take_turns(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it, Producer(it.address, group="P") as producer:
        await it.make_topic("T", 3)
        results = [await producer.send("T", b"x") for _ in range(6)]
        assert sorted(result.queue.queue_id for result in results) == [0, 0, 1, 1, 2, 2]


@in_loop
async def test_a_sharding_key_keeps_to_its_queue(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it, Producer(it.address, group="P") as producer:
        await it.make_topic("T", 4)
        for key in ("a", "user-17", "polygenelubricants"):  # the last one's hash is the smallest int
            results = [await producer.send("T", b"x", sharding_key=key) for _ in range(2)]
            expected = abs(java_hash(key)) % 4
            assert [result.queue.queue_id for result in results] == [expected, expected]


@in_loop
async def test_the_queue_may_be_chosen(tmp_path: Path) -> None:
    def last(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        return queues[-1]

    async with cluster(tmp_path) as it, Producer(it.address, group="P") as producer:
        await it.make_topic("T", 4)
        assert (await producer.send("T", b"x", queue=it.queue("T", 2))).queue == it.queue("T", 2)
        assert (await producer.send("T", b"x", queue=last)).queue == it.queue("T", 3)


@in_loop
async def test_one_way(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it, Producer(it.address, group="P") as producer:
        await it.make_topic("T", 1)
        await producer.send_one_way(Message("T", b"gone"))
        await eventually(lambda: it.state.store.queue("T", 0).max_offset == 1)


@in_loop
async def test_a_batch_lies_together(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it, Producer(it.address, group="P") as producer:
        result = await producer.send_batch([Message("T", b"%d" % number) for number in range(3)])
        assert len(set(result.message_id.split(","))) == 3
        assert [record.body for record in await stored(producer, it, result.queue)] == [b"0", b"1", b"2"]


@in_loop
async def test_programs_do_not_see_their_namespace(tmp_path: Path) -> None:
    options = ClientOptions(namespace="NS")
    async with cluster(tmp_path) as it, Producer(it.address, group="P", client=options) as producer:
        result = await producer.send("T", b"x")
        assert result.queue.topic == "T"
        assert {queue.topic for queue in await producer.queues("T")} == {"T"}
        assert it.state.topics.get("NS%T") is not None
        assert producer.group == "NS%P"
        again = await producer.send("T", b"y", queue=result.queue)
        assert (again.queue, again.queue_offset) == (result.queue, 1)


@in_loop
async def test_what_is_illegal_is_not_sent(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it, Producer(it.address, group="P") as producer:
        with pytest.raises(MessageIllegal):
            await producer.send("T", b"")
        with pytest.raises(MessageIllegal):
            await producer.send_batch([])
        with pytest.raises(MessageIllegal):
            await (await producer.send_soon(Message("bad topic", b"x")))
        assert it.state.topics.get("T") is None
        assert producer._window.count == 0


# -- no route ------------------------------------------------------------------------------------------------


@in_loop
async def test_no_name_server() -> None:
    address = free_address()
    async with Producer(address, group="P") as producer:
        with pytest.raises(NoRoute, match=f"no name server answered: {address}"):
            await producer.send("T", b"x")


@in_loop
async def test_no_name_server_was_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NAMESRV_ADDR", "ROCKETMQ_NAMESRV_ADDR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NAMESRV_ADDR", free_address())
    async with Producer(group="P") as producer:
        with pytest.raises(NoRoute, match="no name server answered"):
            await producer.send("T", b"x")


@in_loop
async def test_no_broker(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it._stack.aclose()  # all brokers
        async with Producer(it.address, group="P") as producer:
            with pytest.raises(NoRoute, match="no broker is registered"):
                await producer.send("T", b"x")


@in_loop
async def test_no_topics_on_the_way(tmp_path: Path) -> None:
    async with (
        cluster(tmp_path, autoCreateTopicEnable="false") as it,
        Producer(it.address, group="P") as producer,
    ):
        with pytest.raises(NoRoute, match="autoCreateTopicEnable is off") as caught:
            await producer.send("T", b"x")
        assert caught.value.retriable
        await it.make_topic("T", 1)
        assert (await producer.send("T", b"x")).queue_offset == 0


@in_loop
async def test_nobody_may_write(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it, Producer(it.address, group="P") as producer:
        await it.make_topic("T", 1, perm=4)
        with pytest.raises(NoRoute, match="may not be written to"):
            await producer.send("T", b"x")


# -- soon ----------------------------------------------------------------------------------------------------


@in_loop
async def test_many_are_on_their_way_and_all_arrive(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it, Producer(it.address, group="P") as producer:
        await it.make_topic("T", 4)
        futures = [await producer.send_soon(Message("T", b"%d" % number)) for number in range(100)]
        await producer.flush()
        assert all(future.done() for future in futures)
        assert len({(future.result().queue, future.result().queue_offset) for future in futures}) == 100
        assert sorted(await all_stored(producer, it, "T"), key=int) == [b"%d" % number for number in range(100)]


@in_loop
async def test_whoever_sends_without_end_leaves_others_their_turn(tmp_path: Path) -> None:
    """No answer would be read before the program waits for something else."""
    async with cluster(tmp_path) as where, Producer(where.address, group="P") as producer:
        sending = [await producer.send_soon(Message("T", b"x")) for _ in range(10_000)]
        assert sending[0].done()
        await producer.flush()


@in_loop
async def test_no_more_are_on_their_way_than_the_window_holds(tmp_path: Path) -> None:
    options = ProducerOptions(max_in_flight=3)
    async with cluster(tmp_path) as it, Producer(it.address, group="P", options=options) as producer:
        await it.make_topic("T", 1)
        peak = 0
        for number in range(30):
            await producer.send_soon(Message("T", b"%d" % number))
            peak = max(peak, producer._window.count)
        await producer.flush()
        assert peak == 3
        assert producer._window.count == producer._window.size == 0
        assert it.state.store.queue("T", 0).max_offset == 30


@in_loop
async def test_messages_are_put_together(tmp_path: Path) -> None:
    options = ProducerOptions(linger_seconds=3600, batch_bytes=1000)
    async with cluster(tmp_path) as it, Producer(it.address, group="P", options=options) as producer:
        await it.make_topic("T", 4)
        small = [await producer.send_soon(Message("T", b"%02d" % number)) for number in range(20)]
        large = await producer.send_soon(Message("T", bytes(5000)))
        ordered = await producer.send_soon(Message("T", b"k", sharding_key="k"))
        await asyncio.wait((large, ordered))
        assert not any(future.done() for future in small)
        await producer.flush()
        results = [future.result() for future in small]
        assert len({result.queue for result in results}) == 1
        first = results[0].queue_offset
        assert [result.queue_offset for result in results] == list(range(first, first + 20))
        assert len({result.message_id for result in results}) == 20


@in_loop
async def test_sends_of_many_tasks_share_requests(tmp_path: Path) -> None:
    options = ProducerOptions(joins_sends=True)
    async with cluster(tmp_path) as it, Producer(it.address, group="P", options=options) as producer:
        await it.make_topic("T", 4)
        alone = await producer.send("T", b"alone")
        counts = it.brokers["broker-a"].broker.dispatcher.request_counts
        before = sum(counts[code] for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE))
        sends = [producer.send("T", b"%d" % number, keys=[f"k{number}"]) for number in range(50)]
        ordered = producer.send("T", b"in order", sharding_key="s")
        *results, kept = await asyncio.gather(*sends, ordered)
        after = sum(counts[code] for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE))
        assert after - before == 3  # the first, which had no company yet; the others; the ordered one
        assert {result.status for result in (alone, kept, *results)} == {SendStatus.SEND_OK}
        for number, result in enumerate(results):
            message = await producer.view_message("T", result.offset_id)
            assert message is not None
            assert (message.body, message.message_id) == (b"%d" % number, result.message_id)


@in_loop
async def test_a_joined_send_that_is_refused_fails_alone(tmp_path: Path) -> None:
    options = ProducerOptions(joins_sends=True)
    async with cluster(tmp_path) as it, Producer(it.address, group="P", options=options) as producer:
        await it.make_topic("T", 1)
        good = [producer.send("T", b"%d" % number) for number in range(3)]
        results = await asyncio.gather(*good, producer.send("T", b""), return_exceptions=True)
        assert [isinstance(result, MessageIllegal) for result in results] == [False, False, False, True]
        assert it.state.store.queue("T", 0).max_offset == 3


@in_loop
async def test_stop_waits_for_what_is_on_its_way(tmp_path: Path) -> None:
    options = ProducerOptions(linger_seconds=3600)
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        async with Producer(it.address, group="P", options=options) as producer:
            future = await producer.send_soon(Message("T", b"x"))
        assert future.result().status is SendStatus.SEND_OK
        assert it.state.store.queue("T", 0).max_offset == 1


@in_loop
async def test_a_failure_is_in_the_future(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it, Producer(it.address, group="P") as producer:
        await it.make_topic("T", 1)
        refuse_sends(it, "broker-a", ResponseCode.MESSAGE_ILLEGAL)
        future = await producer.send_soon(Message("T", b"x"))
        with pytest.raises(RemoteRefused):
            await future
        assert producer._window.count == 0


# -- cancelled -----------------------------------------------------------------------------------------------


@in_loop
async def test_a_cancelled_send_leaves_nothing_behind(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        held = hold_sends(it)
        async with Producer(it.address, group="P") as producer:
            await producer.queues("T")
            sending = asyncio.ensure_future(producer.send("T", b"x"))
            soon: asyncio.Future[SendResult] = await producer.send_soon(Message("T", b"y"))
            await eventually(lambda: len(held) == 2)
            sending.cancel()
            soon.cancel()
            await asyncio.wait((sending, soon))
            assert sending.cancelled() and soon.cancelled()
            assert producer._window.count == 0
        for answer in held:
            answer.cancel()


@in_loop
async def test_an_answer_that_does_not_come_in_time(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it, Producer(it.address, group="P") as producer:
        await it.make_topic("T", 1)
        await producer.queues("T")
        held = hold_sends(it)
        with pytest.raises(SendFailed) as caught:
            await producer.send("T", b"x", timeout_seconds=0.05)
        assert caught.value.retriable and len(caught.value.attempts) == 1
        for answer in held:
            answer.cancel()


@in_loop
async def test_a_cancelled_stop_still_ends_everything(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        held = hold_sends(it)
        producer = Producer(it.address, group="P")
        await producer.start()
        future = await producer.send_soon(Message("T", b"x"))
        await eventually(lambda: held)
        stopping = asyncio.ensure_future(producer.stop())
        await asyncio.sleep(0)
        stopping.cancel()
        await asyncio.wait((stopping,))
        await asyncio.wait((future,))
        await eventually(lambda: not client_tasks())
        held[0].cancel()


# -- life ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "why"),
    [("DEFAULT_PRODUCER", "reserved"), ("", "blank"), ("with space", "illegal characters"), ("g" * 121, "longer")],
)
def test_groups_that_may_not_be(group: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Producer("127.0.0.1:9876", group=group)


@in_loop
async def test_what_is_not_running_sends_nothing() -> None:
    producer = Producer("127.0.0.1:9876", group="P")
    with pytest.raises(WrongState, match="not running"):
        await producer.send("T", b"x")
    with pytest.raises(WrongState, match="not running"):
        await producer.send_soon(Message("T", b"x"))
    await producer.stop()
    with pytest.raises(WrongState, match="has ended"):
        await producer.start()


@in_loop
async def test_a_second_start_and_a_group_in_use(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it, Producer(it.address, group="P") as producer:
        with pytest.raises(WrongState, match="running already"):
            await producer.start()
        twin = Producer(it.address, group="P")
        with pytest.raises(WrongState, match="P is in use in this process"):
            await twin.start()
        await producer.send("T", b"the first one works on")
        async with Producer(it.address, group="P", client=named("another client")) as other:
            await other.send("T", b"x")
        await producer.stop()
        await twin.start()  # now it may
        await twin.stop()
        with pytest.raises(WrongState, match="has ended"):
            await producer.start()


@in_loop
async def test_brokers_hear_of_a_producer_and_of_its_end(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        async with Producer(it.address, group="P") as producer:
            await producer.send("T", b"x")
            await eventually(lambda: it.state.clients.producers.get("P"))
        assert not it.state.clients.producers.get("P")


# -- encoded already -----------------------------------------------------------------------------------------


@in_loop
async def test_what_is_encoded_already_is_sent_as_it_is(tmp_path: Path) -> None:
    client = ClientOptions(namespace="shop")
    async with cluster(tmp_path) as it, Producer(it.address, group="P", client=client) as producer:
        queue = (await producer.queues("orders"))[2]
        batch = encode_batch([(0, b"one", b"UNIQ_KEY\x01A\x02"), (0, b"two", b"UNIQ_KEY\x01B\x02")])
        first = await producer.send_encoded(queue, batch)
        alone = await producer.send_encoded(queue, b"three", properties="UNIQ_KEY\x01C\x02")
        assert (first.queue, first.queue_offset, alone.queue_offset) == (queue, 0, 2)
        records = await stored(producer, it, MessageQueue(queue.broker_name, queue.queue_id, "shop%orders"))
        assert [record.body for record in records] == [b"one", b"two", b"three"]
        found = [decode_properties(record.properties.decode()) for record in records]
        assert [properties["UNIQ_KEY"] for properties in found] == ["A", "B", "C"]
        assert found[2]["INSTANCE_ID"] == "shop"
