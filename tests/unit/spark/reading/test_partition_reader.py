"""Ranges read from brokers of ours, as a task of an executor reads them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from apogeemq.blocking.background import background_loop
from apogeemq.client import Producer, PullConsumer, RawPullResult
from apogeemq.errors import DataLost, NoRoute, ProtocolError, RemoteRefused, RequestRefused
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers.broker import PullMessage, read_pull_message
from apogeemq.spark.connection import Connection
from apogeemq.spark.reading import chunks, direct_pulls, pulling, slots
from apogeemq.spark.reading.partition_reader import read_ranges
from apogeemq.spark.source.message_filter import MessageFilter
from apogeemq.spark.source.ranges import OffsetRange
from apogeemq.spark.source.schema import arrow_schema, spark_schema
from apogeemq.transport.channel import Channel
from tests.unit.client.cluster import Cluster, cluster, eventually, named
from tests.unit.client.consuming.programs import fill
from tests.unit.event_loop import in_loop

SCHEMA = arrow_schema(spark_schema(("queue_id", "queue_offset", "body")))
EVERYTHING = MessageFilter()
PATIENT: dict[str, Any] = {"retries": 50, "retry_delay_ms": 20}
HASTY: dict[str, Any] = {"retries": 2, "retry_delay_ms": 1}


@pytest.fixture(autouse=True, params=["by the loop", "directly"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Short ranges, too, and pulls of a few messages."""
    is_direct = request.param == "directly"
    monkeypatch.setattr(direct_pulls, "_MIN_OFFSETS", 1 if is_direct else 1_000_000)
    monkeypatch.setattr(direct_pulls, "_MIN_MESSAGES", 1)
    monkeypatch.setattr(direct_pulls, "_bring_few", {})
    return str(request.param)


by_the_loop = pytest.mark.parametrize("way", ["by the loop"], indirect=True)


def reader(
    where: Cluster, *ranges: OffsetRange, wanted: MessageFilter = EVERYTHING, fails: bool = True, **options: Any
) -> Any:
    connection = Connection(name_server=where.address, **(options or HASTY))
    return read_ranges(connection, "G", ranges, SCHEMA, wanted, fails_on_data_loss=fails)


async def read(where: Cluster, *ranges: OffsetRange, **more: Any) -> list[tuple[int, int, bytes]]:
    batches = await asyncio.to_thread(list, reader(where, *ranges, **more))
    return rows_of(batches)


def rows_of(batches: Sequence[Any]) -> list[tuple[int, int, bytes]]:
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def of_queue(queue_id: int, start: int, end: int, broker: str = "broker-a", topic: str = "T") -> OffsetRange:
    return OffsetRange(topic, broker, queue_id, start, end)


def expected(queue_id: int, start: int, end: int, queues: int) -> list[tuple[int, int, bytes]]:
    """What `fill` has put there."""
    return [(queue_id, offset, b"%d" % (offset * queues + queue_id)) for offset in range(start, end)]


def interfering(where: Cluster, before: Callable[[PullMessage], None]) -> None:
    """Called with every pull, before the broker sees it; what it raises is the broker's answer."""
    handlers = where.brokers["broker-a"].server.dispatcher.handlers
    pull = handlers[RequestCode.PULL_MESSAGE]

    def interfered(channel: Channel, command: Command) -> Any:
        before(read_pull_message(command))
        return pull(channel, command)

    handlers[RequestCode.PULL_MESSAGE] = interfered


def expire(where: Cluster, queue_id: int, before: int) -> None:
    queue = where.state.store.queue("T", queue_id)
    entry = queue.entry(before)
    assert entry is not None
    queue.correct_min_offset(entry[0])


def blank_out(where: Cluster, start: int, end: int) -> None:
    """A hole in the first queue."""
    queue = where.state.store.queue("T", 0)
    first, last = queue.entry(start), queue.entry(end)
    assert first is not None and last is not None
    queue.blank_out(first[0], last[0])


# -- rows ----------------------------------------------------------------------------------------------------


@in_loop
async def test_each_message_of_the_ranges_once_and_in_order(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 400, queues=2)
        rows = await read(it, of_queue(0, 0, 200), of_queue(1, 30, 111), of_queue(1, 150, 151))
        assert rows == [*expected(0, 0, 200, 2), *expected(1, 30, 111, 2), *expected(1, 150, 151, 2)]


@by_the_loop
@in_loop
async def test_small_ranges_come_in_one_batch(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 40, queues=4)
        batches = await asyncio.to_thread(list, reader(it, *(of_queue(queue, 0, 10) for queue in range(4))))
        assert [batch.num_rows for batch in batches] == [40]


@by_the_loop
@in_loop
async def test_many_rows_come_in_several_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "ROWS", 100)
    async with cluster(tmp_path) as it:
        await fill(it, "T", 600, queues=1)
        batches = await asyncio.to_thread(list, reader(it, of_queue(0, 0, 600)))
        assert len(batches) > 2
        assert rows_of(batches) == expected(0, 0, 600, 1)


@in_loop
async def test_slots_that_grow_too_large_are_handed_over_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulling, "_MAX_SLOT_BYTES", 1000)
    async with cluster(tmp_path, maxTransferCountOnMessageInMemory="7") as it:
        await fill(it, "T", 300, queues=1)
        assert await read(it, of_queue(0, 0, 300)) == expected(0, 0, 300, 1)


@by_the_loop
@in_loop
async def test_answers_that_bring_less_than_others_did(tmp_path: Path) -> None:
    async with cluster(tmp_path, maxTransferBytesOnMessageInMemory="3000", mappedFileSizeCommitLog="1000000") as it:
        await it.make_topic("T", 1)
        bodies = [b"%d" % number + bytes(number * 7919 % 1500) for number in range(700)]
        async with Producer(it.address, group="P", client=named("p")) as producer:
            for body in bodies:
                await producer.send("T", body)
        asked: list[PullMessage] = []
        interfering(it, asked.append)
        assert await read(it, of_queue(0, 0, 700)) == [(0, offset, body) for offset, body in enumerate(bodies)]
        assert len({one.queue_offset for one in asked}) == len(asked)  # nothing was asked for twice


@in_loop
async def test_pulls_of_a_run_that_fail_are_made_again(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 1500, queues=1)
        pulls = 0

        def refuse(header: PullMessage) -> None:
            nonlocal pulls
            pulls += 1
            if pulls % 5 == 0:
                raise RequestRefused(ResponseCode.SYSTEM_BUSY, "busy")

        interfering(it, refuse)
        assert await read(it, of_queue(0, 0, 1500), **PATIENT) == expected(0, 0, 1500, 1)


@in_loop
async def test_several_pulls_are_on_their_way_but_not_without_end(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 1, queues=1)
        entered = 0
        release = asyncio.Event()
        handlers = it.brokers["broker-a"].server.dispatcher.handlers
        pull = handlers[RequestCode.PULL_MESSAGE]

        async def later(channel: Channel, command: Command) -> Any:
            await release.wait()
            return pull(channel, command)

        def noted(channel: Channel, command: Command) -> Any:
            nonlocal entered
            entered += 1
            return asyncio.ensure_future(later(channel, command))

        handlers[RequestCode.PULL_MESSAGE] = noted
        reading = asyncio.create_task(read(it, of_queue(0, 0, 100_000), fails=False))
        await eventually(lambda: entered >= chunks.SLOTS_IN_FLIGHT)
        assert entered == chunks.SLOTS_IN_FLIGHT
        release.set()
        assert await reading == expected(0, 0, 1, 1)


@in_loop
async def test_nothing_to_read(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        assert await read(it) == []
        assert await read(it, of_queue(0, 5, 5)) == []


# -- filters -------------------------------------------------------------------------------------------------


@in_loop
async def test_only_messages_with_the_tags_themselves(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        async with Producer(it.address, group="P", client=named("p")) as producer:
            for number in range(200):
                await producer.send("T", b"%d" % number, tags=("Aa", "BB", "C", "")[number % 4])  # Aa and BB hash alike
        rows = await read(it, of_queue(0, 10, 190), wanted=MessageFilter("Aa || C"))
        assert rows == [(0, number, b"%d" % number) for number in range(10, 190) if number % 2 == 0]
        assert await read(it, of_queue(0, 0, 200), wanted=MessageFilter("none")) == []


@in_loop
async def test_a_broker_that_does_not_filter_by_sql_says_so_at_once(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 1, queues=1)
        asked: list[PullMessage] = []
        interfering(it, asked.append)
        with pytest.raises(RemoteRefused, match="does not support consumer to filter message by SQL92"):
            await read(it, of_queue(0, 0, 1), wanted=MessageFilter(sql="a > 1"), **PATIENT)
        assert [(one.expression_type, one.subscription) for one in asked] == [("SQL92", "a > 1")]


# -- what is lost --------------------------------------------------------------------------------------------


@in_loop
async def test_messages_that_have_expired_are_an_error(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 100, queues=1)
        expire(it, 0, 40)
        with pytest.raises(DataLost) as lost:
            await read(it, of_queue(0, 10, 100))
        loss = lost.value
        assert (loss.topic, loss.broker, loss.queue_id, loss.start, loss.end) == ("T", "broker-a", 0, 10, 40)
        assert "the oldest that is left is 40" in str(loss)


@in_loop
async def test_or_reading_goes_on_after_them_with_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 400, queues=1)
        expire(it, 0, 300)
        assert await read(it, of_queue(0, 10, 400), fails=False) == expected(0, 300, 400, 1)
        (warning,) = [one for one in caplog.messages if "lost" in one]
        assert (
            str(DataLost("T", "broker-a", 0, 10, 300, "they have expired; the oldest that is left is 300")) in warning
        )


@in_loop
async def test_a_range_of_which_nothing_is_left(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 100, queues=1)
        expire(it, 0, 90)
        assert await read(it, of_queue(0, 0, 80), of_queue(0, 85, 95), fails=False) == expected(0, 90, 95, 1)


@in_loop
async def test_holes_within_an_answer_are_seen(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 50, queues=1)
        blank_out(it, 20, 25)
        with pytest.raises(DataLost) as lost:
            await read(it, of_queue(0, 0, 50))
        assert (lost.value.start, lost.value.end) == (20, 25)
        rows = await read(it, of_queue(0, 0, 50), fails=False)
        assert rows == [*expected(0, 0, 20, 1), *expected(0, 25, 50, 1)]


@in_loop
async def test_holes_of_a_compacted_topic_are_no_loss(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 50, queues=1)
        blank_out(it, 20, 25)
        compacted = msgspec.structs.replace(it.state.topics.topics["T"], attributes={"cleanup.policy": "COMPACTION"})
        it.state.topics.put(compacted, it.state.now_ms())
        assert await read(it, of_queue(0, 0, 50)) == [*expected(0, 0, 20, 1), *expected(0, 25, 50, 1)]
        assert "lost" not in caplog.text


@in_loop
async def test_a_queue_that_ends_too_early(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 50, queues=1)
        asked: list[PullMessage] = []
        interfering(it, asked.append)
        with pytest.raises(DataLost, match="the queue ends at 50") as lost:
            await read(it, of_queue(0, 0, 5000))
        assert (lost.value.start, lost.value.end) == (50, 5000)
        asked.clear()
        assert await read(it, of_queue(0, 0, 50_000), fails=False) == expected(0, 0, 50, 1)
        # One slot speaks for all: when another has tried often enough, this one need not.
        assert 1 <= len([one for one in asked if one.queue_offset == 50]) <= 1 + HASTY["retries"]


@in_loop
async def test_a_queue_that_catches_up_in_time_has_lost_nothing(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 50, queues=1)
        asked: list[PullMessage] = []
        interfering(it, asked.append)
        reading = asyncio.create_task(read(it, of_queue(0, 0, 60), **PATIENT))
        await eventually(lambda: [one for one in asked if one.queue_offset == 50])
        await fill(it, "T", 10, queues=1, first=50)
        assert await reading == expected(0, 0, 60, 1)


@in_loop
async def test_a_topic_that_is_not_there_any_more(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 5, queues=1)
        gone = of_queue(0, 0, 5, topic="gone")
        with pytest.raises(DataLost, match="topic gone"):
            await read(it, gone)
        assert await read(it, gone, of_queue(0, 0, 5), fails=False) == expected(0, 0, 5, 1)
        it.state.topics.delete("T", it.state.now_ms())  # its name server has not heard yet
        with pytest.raises(DataLost, match="topic T"):
            await read(it, of_queue(0, 0, 5))


# -- failures ------------------------------------------------------------------------------------------------


@in_loop
async def test_a_broker_that_is_gone_for_good(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 5, queues=1)
        with pytest.raises(NoRoute, match="broker-z") as failure:
            await read(it, of_queue(0, 0, 5, "broker-z"), fails=False)
        assert failure.value.__notes__ == ["while reading topic T, broker broker-z, queue 0 from 0 to 5 (exclusive)"]


@in_loop
async def test_refusals_that_pass_are_waited_out(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 100, queues=1)
        refused: list[int] = []

        def refuse(header: PullMessage) -> None:
            if refused.count(header.queue_offset) < 2:
                refused.append(header.queue_offset)
                raise RequestRefused(ResponseCode.SYSTEM_BUSY, "busy")

        interfering(it, refuse)
        assert await read(it, of_queue(0, 0, 100), **PATIENT) == expected(0, 0, 100, 1)
        assert len(refused) >= 4


@by_the_loop
@in_loop
async def test_refusals_that_do_not_pass_are_not(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 5, queues=1)
        asked: list[PullMessage] = []
        interfering(it, asked.append)
        with pytest.raises(RemoteRefused, match="queueId"):
            await read(it, of_queue(9, 0, 5), **PATIENT)
        assert len(asked) == 1


@pytest.fixture
def little_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some hundred messages are read ahead, not thousands."""
    monkeypatch.setattr(chunks, "ROWS", 100)
    monkeypatch.setattr(slots, "_MAX_OFFSETS", 64)


@pytest.mark.usefixtures("little_ahead")
@in_loop
async def test_a_broker_that_stops_and_comes_back_elsewhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with cluster(tmp_path, "broker-b") as it:
        own = await it.add_broker("broker-a")
        await fill(it, "T", 2000, queues=1)
        batches = reader(it, of_queue(0, 0, 2000), **PATIENT)
        found = [await asyncio.to_thread(next, batches)]
        await own.aclose()
        reading = asyncio.create_task(asyncio.to_thread(list, batches))
        await eventually(lambda: "trying again" in caplog.text)
        await it.add_broker("broker-a")
        found += await reading
        assert rows_of(found) == expected(0, 0, 2000, 1)


@by_the_loop
@in_loop
async def test_records_that_are_none_are_an_error_that_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 5, queues=1)
        pull_raw = PullConsumer.pull_raw

        async def spoilt(*args: Any, **more: Any) -> RawPullResult:
            return msgspec.structs.replace(await pull_raw(*args, **more), records=bytes(500))

        monkeypatch.setattr(PullConsumer, "pull_raw", spoilt)
        with pytest.raises(ProtocolError, match="record at 0") as failure:
            await read(it, of_queue(0, 0, 5))
        assert "topic='T', broker='broker-a', queue_id=0, start=0, end=5" in failure.value.__notes__[0]


# -- an early end --------------------------------------------------------------------------------------------


def pulling_tasks() -> int:
    """How many tasks of the loop behind blocking calls pull."""

    async def count() -> int:
        return len([task for task in asyncio.all_tasks() if "spark/reading" in str(task.get_coro())])

    return background_loop().run(count)


@pytest.mark.usefixtures("little_ahead")
@in_loop
async def test_closing_it_early_ends_the_pulls(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 2000, queues=1)
        asked: list[PullMessage] = []
        interfering(it, asked.append)
        for leave in ("close", "forget"):
            batches = reader(it, of_queue(0, 0, 2000))
            first = await asyncio.to_thread(next, batches)
            assert first.num_rows >= 100
            if leave == "close":
                batches.close()
            else:
                del batches
            while await asyncio.to_thread(pulling_tasks):
                pass
        assert max(one.queue_offset for one in asked) < 1500
        assert await read(it, of_queue(0, 0, 5)) == expected(0, 0, 5, 1)


@by_the_loop
@in_loop
async def test_closing_it_while_a_broker_does_not_answer(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 5, queues=1)
        failed: list[PullMessage] = []

        def refuse(header: PullMessage) -> None:
            failed.append(header)
            raise RequestRefused(ResponseCode.SYSTEM_BUSY, "busy")

        interfering(it, refuse)
        with pytest.raises(RemoteRefused):
            await read(it, of_queue(0, 0, 5))
        assert len(failed) == 1 + HASTY["retries"]
        while await asyncio.to_thread(pulling_tasks):
            pass


@in_loop
async def test_a_reader_that_nobody_begins_does_nothing(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 5, queues=1)
        asked: list[PullMessage] = []
        interfering(it, asked.append)
        reader(it, of_queue(0, 0, 5)).close()
        assert asked == []
