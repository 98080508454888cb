"""Where offsets are kept: with the brokers, or in Apache's file on this machine."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from apogeemq.client.broker_calls import NO_OFFSET
from apogeemq.client.consuming.offset_store import LocalOffsets, OffsetStore, RemoteOffsets
from apogeemq.client.producing.producer import Producer
from apogeemq.errors import NoRoute, StorageFailed
from apogeemq.model.groups import GroupConfig
from apogeemq.model.queues import MessageQueue
from apogeemq.protocol.codes import RequestCode
from apogeemq.protocol.command import Command
from apogeemq.transport.channel import Channel
from tests.unit.client.cluster import cluster, eventually
from tests.unit.event_loop import in_loop

FIRST = MessageQueue("broker-a", 0, "T")
SECOND = MessageQueue("broker-a", 1, "T")
# As the Java client writes it: a map whose keys are objects.
APACHES_FILE = b"""{
\t"offsetTable":{{
\t\t\t"brokerName":"broker-a",
\t\t\t"queueId":0,
\t\t\t"topic":"T"
\t\t}:12,{
\t\t\t"brokerName":"broker-a",
\t\t\t"queueId":1,
\t\t\t"topic":"T"
\t\t}:7
\t}
}"""


def path_of(folder: Path) -> Path:
    return folder / "10.0.0.1@DEFAULT" / "G" / "offsets.json"


def local(folder: Path) -> LocalOffsets:
    return LocalOffsets(folder, "10.0.0.1@DEFAULT", "G")


async def loaded(folder: Path) -> LocalOffsets:
    offsets = local(folder)
    await offsets.load()
    return offsets


# -- in memory -----------------------------------------------------------------------------------------------


@in_loop
async def test_offsets_go_forward_unless_told_otherwise(tmp_path: Path) -> None:
    offsets: OffsetStore = local(tmp_path)
    assert offsets.known(FIRST) == NO_OFFSET
    for offset, expected in ((-1, NO_OFFSET), (0, 0), (5, 5), (3, 5)):
        offsets.update(FIRST, offset)
        assert offsets.known(FIRST) == expected
    offsets.update(FIRST, 2, only_forward=False)
    assert offsets.known(FIRST) == 2
    assert offsets.known(SECOND) == NO_OFFSET


# -- on this machine -----------------------------------------------------------------------------------------


@in_loop
async def test_apaches_file_is_read(tmp_path: Path) -> None:
    path_of(tmp_path).parent.mkdir(parents=True)
    path_of(tmp_path).write_bytes(APACHES_FILE)
    offsets = await loaded(tmp_path)
    assert [await offsets.read(queue) for queue in (FIRST, SECOND)] == [12, 7]
    assert await offsets.read(MessageQueue("broker-b", 0, "T")) == NO_OFFSET


@in_loop
async def test_apaches_file_is_written(tmp_path: Path) -> None:
    offsets = await loaded(tmp_path)
    offsets.update(FIRST, 12)
    await offsets.persist()
    written = path_of(tmp_path).read_bytes()
    assert b"".join(written.split()) == b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:12}}'
    assert await (await loaded(tmp_path)).read(FIRST) == 12


@pytest.mark.parametrize(
    "damaged", [b"", b"{", b"[]", b'{"offsetTable":{"x":1}}', b'{"offsetTable":{{"topic":"T"}:1}}']
)
def test_a_damaged_file_is_no_file_of_offsets(tmp_path: Path, damaged: bytes) -> None:
    async def run() -> None:
        path = path_of(tmp_path)
        path.parent.mkdir(parents=True)
        path.write_bytes(damaged)
        with pytest.raises(StorageFailed):
            await loaded(tmp_path)
        path.with_name("offsets.json.bak").write_bytes(APACHES_FILE)
        assert await (await loaded(tmp_path)).read(FIRST) == 12

    asyncio.run(run())


@pytest.mark.parametrize("empty", [b"{}", b'{"offsetTable":{}}'])
def test_a_file_without_offsets(tmp_path: Path, empty: bytes) -> None:
    async def run() -> None:
        path_of(tmp_path).parent.mkdir(parents=True)
        path_of(tmp_path).write_bytes(empty)
        assert (await loaded(tmp_path)).table == {}

    asyncio.run(run())


@in_loop
async def test_nothing_is_written_when_nothing_changed(tmp_path: Path) -> None:
    offsets = await loaded(tmp_path)
    await offsets.persist()
    await offsets.release(FIRST)
    assert not path_of(tmp_path).exists()


@in_loop
async def test_what_could_not_be_written_is_written_next_time(tmp_path: Path) -> None:
    offsets = await loaded(tmp_path)
    offsets.update(FIRST, 3)
    in_the_way = tmp_path / "10.0.0.1@DEFAULT"
    in_the_way.write_bytes(b"a file")
    with pytest.raises(StorageFailed):
        await offsets.persist()
    in_the_way.unlink()
    await offsets.persist()
    assert await (await loaded(tmp_path)).read(FIRST) == 3


@in_loop
async def test_writers_at_the_same_time_end_with_the_last_offsets(tmp_path: Path) -> None:
    offsets = await loaded(tmp_path)
    writing = []
    for offset in range(20):
        offsets.update(FIRST, offset)
        writing.append(asyncio.ensure_future(offsets.persist()))
        await asyncio.sleep(0)
        if offset % 3 == 0:
            writing[-1].cancel()
    await asyncio.wait(writing)
    await offsets.persist()
    assert await (await loaded(tmp_path)).read(FIRST) == 19


@in_loop
async def test_an_offset_is_known_still_when_a_queue_comes_back(tmp_path: Path) -> None:
    offsets = await loaded(tmp_path)
    offsets.update(FIRST, 3)
    await offsets.release(FIRST)
    assert await (await loaded(tmp_path)).read(FIRST) == 3
    assert await offsets.read(FIRST) == 3


# -- with the brokers ----------------------------------------------------------------------------------------


@in_loop
async def test_brokers_keep_what_is_persisted(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it, Producer(it.address, group="P") as producer:
        await it.make_topic("T", 2)
        for queue in (FIRST, SECOND):
            for _ in range(5):
                await producer.send("T", b"x", queue=queue)
        it.state.groups.put(GroupConfig(group_name="G"), it.state.now_ms())
        offsets = RemoteOffsets(producer._running, "G")
        offsets.update(FIRST, 2)
        offsets.update(SECOND, 3)
        await offsets.persist()
        await eventually(lambda: it.committed("G", "T") == {0: 2, 1: 3})
        assert [await offsets.read(queue) for queue in (FIRST, SECOND)] == [2, 3]
        offsets.update(FIRST, 4)
        await offsets.release(FIRST)
        assert it.committed("G", "T") == {0: 4, 1: 3}
        assert offsets.known(FIRST) == NO_OFFSET
        offsets.update(SECOND, 5)
        await offsets.persist()
        await offsets.release(SECOND)  # which it was told of, but not asked for an answer
        assert it.committed("G", "T") == {0: 4, 1: 5}


@in_loop
async def test_a_commit_is_kept_when_it_returns_also_backwards(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it, Producer(it.address, group="P") as producer:
        await it.make_topic("T", 2)
        await producer.send("T", b"x")
        it.state.groups.put(GroupConfig(group_name="G"), it.state.now_ms())
        offsets = RemoteOffsets(producer._running, "G")
        offsets.update(FIRST, 9)
        await offsets.commit({FIRST: 5, SECOND: 7})
        assert it.committed("G", "T") == {0: 5, 1: 7}
        assert (offsets.known(FIRST), offsets.changed) == (5, set())
        await offsets.commit({FIRST: 2})
        assert it.committed("G", "T") == {0: 2, 1: 7}
        with pytest.raises(NoRoute, match="broker-z"):
            await offsets.commit({MessageQueue("broker-z", 0, "T"): 1, SECOND: 8})
        assert it.committed("G", "T") == {0: 2, 1: 8}
    local_ones = await loaded(tmp_path)
    await local_ones.commit({FIRST: 5})
    await local_ones.commit({FIRST: 3})
    assert await (await loaded(tmp_path)).read(FIRST) == 3


@in_loop
async def test_the_first_offset_of_a_topic_comes_alone(tmp_path: Path) -> None:
    """Two that come at once would each make a table for the group and the topic, in Apache's brokers."""
    async with cluster(tmp_path) as it, Producer(it.address, group="P") as producer:
        await it.make_topic("T", 4)
        await producer.send("T", b"x")
        it.state.groups.put(GroupConfig(group_name="G"), it.state.now_ms())
        offsets = RemoteOffsets(producer._running, "G")
        for number in range(4):
            offsets.update(it.queue("T", number), number)
        dispatcher = it.brokers["broker-a"].server.dispatcher
        handler, go_on = dispatcher.handlers[RequestCode.UPDATE_CONSUMER_OFFSET], asyncio.Event()
        came: list[bool] = []  # whether they want no answer

        async def answer_late(channel: Channel, command: Command) -> bytes:
            await go_on.wait()
            answer = handler(channel, command)
            assert isinstance(answer, bytes)
            return answer

        def hold(channel: Channel, command: Command) -> asyncio.Future[bytes]:
            came.append(command.is_one_way)
            return asyncio.ensure_future(answer_late(channel, command))

        dispatcher.register(RequestCode.UPDATE_CONSUMER_OFFSET, hold)
        persisting = asyncio.ensure_future(offsets.persist())
        await eventually(lambda: came)
        await producer.send("T", b"x")  # by the same connection: the others would have come before
        assert came == [False]
        go_on.set()
        await persisting
        await eventually(lambda: it.committed("G", "T") == {0: 0, 1: 1, 2: 2, 3: 3})
        assert came == [False, True, True, True]


@in_loop
async def test_a_release_in_the_midst_of_persisting_loses_nothing(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it, Producer(it.address, group="P") as producer:
        await it.make_topic("T", 1)
        await producer.send("T", b"x")
        it.state.groups.put(GroupConfig(group_name="G"), it.state.now_ms())
        offsets = RemoteOffsets(producer._running, "G")
        offsets.update(FIRST, 1)
        await asyncio.gather(offsets.persist(), offsets.release(FIRST))
        await eventually(lambda: it.committed("G", "T") == {0: 1})


@in_loop
async def test_what_a_broker_did_not_hear_is_told_next_time(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it, Producer(it.address, group="P") as producer:
        await it.make_topic("T", 1)
        it.state.groups.put(GroupConfig(group_name="G"), it.state.now_ms())
        offsets = RemoteOffsets(producer._running, "G")
        offsets.update(FIRST, 0)
        await offsets.persist()  # the broker is not known yet
        assert offsets.changed == {FIRST}
        with pytest.raises(NoRoute):
            await offsets.read(FIRST)
        await producer.send("T", b"x")
        await offsets.persist()
        await eventually(lambda: it.committed("G", "T") == {0: 0})
        assert offsets.changed == set()
