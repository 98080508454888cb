"""A reader of one queue: what it does with the answers of brokers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from apogeemq.client import ClientOptions, ConsumerOptions, Producer
from apogeemq.client.consuming import queue_reader
from apogeemq.client.consuming.offset_store import LocalOffsets
from apogeemq.client.consuming.queue_reader import QueueReader, Reading
from apogeemq.client.instance import ClientInstance
from apogeemq.errors import RequestRefused
from apogeemq.protocol.codec import encode_reply
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers.broker import PULL_COMMITS, PULL_SUSPENDS, PullMessage, read_pull_message
from apogeemq.transport.channel import Channel
from tests.unit.client.cluster import Cluster, cluster, eventually
from tests.unit.client.consuming.messages import QUEUE, idle_reader, message, record
from tests.unit.event_loop import in_loop

Answer = Callable[[Command, PullMessage], bytes]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_reader, "_FAILURE_SECONDS", 0.001)


class Pulled:
    """A reader whose broker answers from a script; after its end pulls are held."""

    def __init__(self, instance: ClientInstance, where: Cluster, folder: Path, script: list[Answer]) -> None:
        self.script = script
        self.asked: list[PullMessage] = []
        self.offsets: list[int] = []  # of what was handed on
        self.held: list[asyncio.Future[bytes]] = []
        self.store = LocalOffsets(folder, "client", "G")
        reading = Reading(
            instance,
            "G",
            ConsumerOptions(),
            self.store,
            lambda topic: None,
            lambda reader, messages: self.offsets.extend(each.queue_offset for each in messages),
            False,
            "",
        )
        self.queue = where.queue("T")
        self.reader = QueueReader(reading, self.queue, 5)
        where.brokers["broker-a"].server.dispatcher.register(RequestCode.PULL_MESSAGE, self._answer)

    def _answer(self, channel: Channel, command: Command) -> bytes | asyncio.Future[bytes]:
        header = read_pull_message(command)
        self.asked.append(header)
        if self.script:
            return self.script.pop(0)(command, header)
        self.held.append(asyncio.get_running_loop().create_future())
        return self.held[-1]

    @property
    def asked_offsets(self) -> list[int]:
        return [header.queue_offset for header in self.asked]


@asynccontextmanager
async def reading(folder: Path, *script: Answer) -> AsyncIterator[Pulled]:
    async with cluster(folder) as it, Producer(it.address, group="P", client=ClientOptions()) as producer:
        await it.make_topic("T", 1)
        await producer.queues("T")
        pulled = Pulled(producer._running, it, folder, list(script))
        pulled.reader.start()
        try:
            yield pulled
        finally:
            await pulled.reader.stop()
            for answer in pulled.held:
                answer.cancel()


def found(*offsets: int, next_offset: int, body: bytes | None = None, suggested: int = 0) -> Answer:
    data = b"".join(map(record, offsets)) if body is None else body
    return _answer(ResponseCode.SUCCESS, next_offset, data, suggested)


def none(code: int, next_offset: int) -> Answer:
    return _answer(code, next_offset, b"", 0)


def _answer(code: int, next_offset: int, body: bytes, suggested: int) -> Answer:
    fields = {
        "nextBeginOffset": str(next_offset),
        "minOffset": "0",
        "maxOffset": "100",
        "suggestWhichBrokerId": str(suggested),
    }
    return lambda command, header: encode_reply(command, code, fields=fields, body=body)


def refused(code: int) -> Answer:
    def refuse(command: Command, header: PullMessage) -> bytes:
        raise RequestRefused(code, "no")

    return refuse


@in_loop
async def test_messages_are_handed_on_and_pulled_beyond(tmp_path: Path) -> None:
    async with reading(tmp_path, found(5, 6, next_offset=7), found(8, next_offset=9)) as it:
        await eventually(lambda: len(it.asked) == 3)
        assert (it.offsets, it.asked_offsets) == ([5, 6, 8], [5, 7, 9])
        first = it.asked[0]
        assert (first.consumer_group, first.topic, first.max_messages, first.suspend_ms) == ("G", "T", 32, 15_000)
        assert first.system_flag == PULL_SUSPENDS
        assert it.reader.max_offset == 100


@in_loop
async def test_what_was_finished_travels_with_the_next_pull(tmp_path: Path) -> None:
    async with reading(tmp_path, found(5, next_offset=6), none(ResponseCode.PULL_RETRY_IMMEDIATELY, 6)) as it:
        it.store.update(it.queue, 4)
        await eventually(lambda: len(it.asked) == 3)
        assert [(header.commit_offset, bool(header.system_flag & PULL_COMMITS)) for header in it.asked] == [
            (4, True)
        ] * 3


@in_loop
async def test_what_is_not_for_us_is_passed_when_nothing_is_unfinished(tmp_path: Path) -> None:
    script = (
        none(ResponseCode.PULL_RETRY_IMMEDIATELY, 8),
        found(8, next_offset=9),
        none(ResponseCode.PULL_NOT_FOUND, 20),
    )
    async with reading(tmp_path, *script) as it:
        await eventually(lambda: len(it.asked) == 4)
        assert (it.asked_offsets, it.store.known(it.queue)) == ([5, 8, 9, 20], 8)  # message 8 is unfinished


@in_loop
async def test_a_message_that_comes_twice_is_handed_on_once(tmp_path: Path) -> None:
    async with reading(tmp_path, found(5, 6, next_offset=6), found(6, 7, next_offset=8)) as it:
        await eventually(lambda: len(it.asked) == 3)
        assert it.offsets == [5, 6, 7]


@in_loop
async def test_an_offset_that_is_not_there_is_left_for_the_one_that_is(tmp_path: Path) -> None:
    async with reading(tmp_path, found(5, next_offset=6), none(ResponseCode.PULL_OFFSET_MOVED, 2)) as it:
        old = it.reader.process
        await eventually(lambda: len(it.asked) == 3)
        assert it.asked_offsets == [5, 6, 2]
        assert old.is_dropped and it.reader.process is not old
        assert it.store.known(it.queue) == 2


@in_loop
async def test_bytes_that_are_no_messages_are_pulled_again_not_passed_over(tmp_path: Path) -> None:
    async with reading(
        tmp_path, found(next_offset=50, body=b"\x00\x00\x00\x09nonsense"), found(5, next_offset=6)
    ) as it:
        await eventually(lambda: len(it.asked) == 3)
        assert (it.asked_offsets, it.offsets, it.store.known(it.queue)) == ([5, 5, 6], [5], -1)


@pytest.mark.parametrize("code", [ResponseCode.FLOW_CONTROL, ResponseCode.SYSTEM_ERROR, ResponseCode.NO_PERMISSION, 26])
def test_a_refusal_is_asked_again(tmp_path: Path, code: int) -> None:
    async def run() -> None:
        async with reading(tmp_path, refused(code), refused(code), found(5, next_offset=6)) as it:
            await eventually(lambda: it.offsets == [5])
            assert it.asked_offsets[:3] == [5, 5, 5]

    asyncio.run(run())


@in_loop
async def test_a_slave_that_is_suggested_gets_no_commit(tmp_path: Path) -> None:
    async with reading(tmp_path, found(5, next_offset=6, suggested=1)) as it:
        it.store.update(it.queue, 4)
        await eventually(lambda: len(it.asked) == 2)  # there is no slave: the master stands in
        assert it.asked[1].system_flag == PULL_SUSPENDS


@in_loop
async def test_a_seek_does_not_wait_for_a_pull_and_hears_nothing_of_it(tmp_path: Path) -> None:
    async with reading(tmp_path, found(5, next_offset=6)) as it:
        await eventually(lambda: it.held)
        it.script.append(found(2, next_offset=3))
        it.reader.seek(2)
        await eventually(lambda: len(it.asked) == 4)
        assert (it.asked_offsets, it.offsets) == ([5, 6, 2, 3], [5, 2])
        await it.reader.stop()
        it.reader.seek(1)  # is not read here any more
        assert it.reader.next_offset == 3


@in_loop
async def test_a_reader_that_is_paused_pulls_when_it_is_resumed(tmp_path: Path) -> None:
    async with reading(tmp_path, found(5, next_offset=6)) as it:
        it.reader.pause()
        for _ in range(50):
            await asyncio.sleep(0)
        assert it.asked == []
        it.reader.resume()
        await eventually(lambda: it.offsets == [5])


@in_loop
async def test_stopped_in_the_midst_of_a_pull(tmp_path: Path) -> None:
    async with reading(tmp_path) as it:
        await eventually(lambda: it.held)
        await it.reader.stop()
        await it.reader.stop()
        assert it.reader.process.is_dropped


# -- without a broker ----------------------------------------------------------------------------------------


@in_loop
async def test_finished_messages_move_the_offset(tmp_path: Path) -> None:
    reader = idle_reader(tmp_path)
    first, second = reader.process.put([message(3), message(4)])
    reader.finished(second, reader.process)
    assert reader._reading.offsets.known(QUEUE) == 3
    reader.finished(first, reader.process)
    assert reader._reading.offsets.known(QUEUE) == 5


@in_loop
async def test_after_a_seek_what_was_out_does_not_count(tmp_path: Path) -> None:
    reader = idle_reader(tmp_path)
    old = reader.process
    (out,) = old.put([message(30)])
    reader.seek(10)
    assert (reader.next_offset, reader._reading.offsets.known(QUEUE)) == (10, 10)
    reader.finished(out, old)
    assert reader._reading.offsets.known(QUEUE) == 10
    assert len(reader.process.put([message(10)])) == 1


@pytest.mark.parametrize(
    ("limit", "is_full"),
    [
        ({"max_cached_per_queue": 2}, True),
        ({"max_cached_per_queue": 3}, False),
        ({"max_cached_bytes_per_queue": 8}, True),
        ({"max_cached_bytes_per_queue": 9}, False),
        ({"max_span_per_queue": 10}, True),
        ({"max_span_per_queue": 11}, False),
    ],
)
def test_when_too_much_is_unfinished(tmp_path: Path, limit: dict[str, int], is_full: bool) -> None:
    async def run() -> None:
        reader = idle_reader(tmp_path, options=msgspec.structs.replace(ConsumerOptions(), **limit))
        reader.process.put([message(0), message(10)])
        assert await reader._may_pull() is not is_full

    asyncio.run(run())
