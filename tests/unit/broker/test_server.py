"""The life of a broker, and what its word is worth: sync flush, failed flushes, full disks, restarts."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from apogeemq.broker.server import Broker
from apogeemq.broker.settings import resolve_settings
from apogeemq.errors import ConfigError, StorageFailed
from apogeemq.model.properties import encode_properties
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.store.upkeep import cleaning
from apogeemq.testing.faulty_files import failing_syncs, full_disk, path_of
from tests.unit.broker.handlers.members import Member, Serving, serving
from tests.unit.broker.handlers.traffic import (
    FIXED,
    HOLDS,
    ask_batch,
    ask_send,
    batch,
    bodies,
    pull,
    refused_send,
    send,
    stored,
)
from tests.unit.event_loop import in_loop
from tests.unit.nameserver.live import Client, eventually

SYNC = {"flushDiskType": "SYNC_FLUSH", "flushIntervalCommitLog": "1000000"}
TIMED_OUT = ResponseCode.FLUSH_DISK_TIMEOUT


def is_log(path: Path) -> bool:
    return path.parent.name == "commitlog"


class Gate:
    """Flushes of the commit log wait here until they may go on."""

    def __init__(self) -> None:
        self.waiting_count = 0
        self.passed_count = 0
        self._open = threading.Event()

    def pass_through(self) -> None:
        self.waiting_count += 1
        self._open.wait()
        self.waiting_count -= 1
        self.passed_count += 1

    def open(self) -> None:
        self._open.set()


@contextmanager
def held_flushes() -> Iterator[Gate]:
    gate, fdatasync = Gate(), os.fdatasync

    def held(descriptor: int) -> None:
        if is_log(path_of(descriptor)):
            gate.pass_through()
        fdatasync(descriptor)

    with patch.object(os, "fdatasync", held):
        try:
            yield gate
        finally:
            gate.open()


async def begun(running: Serving) -> Member:
    """A member, and the topic T."""
    member = running.member("p1")
    await send(member, body=b"first")
    return member


# -- sync flush ----------------------------------------------------------------------------------------------


@in_loop
async def test_a_message_is_answered_when_it_is_on_the_disk_and_not_before(tmp_path: Path) -> None:
    async with serving(tmp_path, **SYNC) as running:
        member = await begun(running)
        with held_flushes() as gate:
            asked = asyncio.ensure_future(send(member, body=b"second"))
            batched = asyncio.ensure_future(ask_batch(member, batch(b"third", b"fourth")))
            await eventually(lambda: gate.waiting_count)
            # A later request over the same connection is answered meanwhile: nobody else waits.
            assert bodies(await pull(member))[0] == b"first"
            await eventually(lambda: len(running.broker.promises) == 2)
            assert not asked.done()
            assert not batched.done()
            gate.open()
            assert (await asked).fields()["queueOffset"] == "1"
            assert (await batched).code == ResponseCode.SUCCESS
            assert running.state.opened.flushed_offset == running.state.store.log.max_offset


@in_loop
async def test_all_who_wait_are_served_by_one_flush(tmp_path: Path) -> None:
    async with serving(tmp_path, **SYNC) as running:
        member = await begun(running)
        with held_flushes() as gate:
            first = asyncio.ensure_future(send(member))
            await eventually(lambda: gate.waiting_count)
            others = [asyncio.ensure_future(send(member)) for _ in range(100)]
            await eventually(lambda: len(running.broker.promises) == 101)
            gate.open()
            await asyncio.gather(first, *others)
            assert gate.passed_count == 2


@in_loop
async def test_who_does_not_want_to_wait_does_not(tmp_path: Path) -> None:
    async with serving(tmp_path, **SYNC) as running:
        member = await begun(running)
        with held_flushes():
            await send(member, i=encode_properties({"UNIQ_KEY": "U", "WAIT": "false"}))


@in_loop
async def test_without_sync_flush_nobody_waits(tmp_path: Path) -> None:
    async with serving(tmp_path, flushIntervalCommitLog="1") as running:
        with held_flushes():
            member = await begun(running)
            await send(member)


@in_loop
async def test_who_has_waited_too_long_is_told_where_the_message_is_all_the_same(tmp_path: Path) -> None:
    async with serving(tmp_path, **SYNC, syncFlushTimeout="60000") as running:
        member = await begun(running)
        with held_flushes():
            asked = asyncio.ensure_future(ask_send(member))
            await eventually(lambda: len(running.broker.promises))
            running.broker.promises.expire(running.state.now_ms() + 60_001)
            answer = await asked
            assert (answer.code, answer.fields()["queueOffset"]) == (TIMED_OUT, "1")
        await send(member)


@in_loop
async def test_no_more_sends_wait_than_may(tmp_path: Path) -> None:
    async with serving(tmp_path, **SYNC, sendThreadPoolQueueCapacity="2") as running:
        member = await begun(running)
        with held_flushes() as gate:
            asked = [asyncio.ensure_future(send(member)) for _ in range(2)]
            await eventually(lambda: len(running.broker.promises) == 2)
            end = running.state.store.log.max_offset
            assert (await refused_send(member))[0] == ResponseCode.SYSTEM_BUSY
            assert running.state.store.log.max_offset == end
            gate.open()
            await asyncio.gather(*asked)


@in_loop
async def test_a_stop_waits_for_what_was_taken(tmp_path: Path) -> None:
    async with serving(tmp_path, **SYNC) as running:
        member = await begun(running)
        with held_flushes() as gate:
            asked = asyncio.ensure_future(send(member))
            await eventually(lambda: len(running.broker.promises))
            stopping = asyncio.ensure_future(running.broker.stop())
            await asyncio.sleep(0)
            gate.open()
            assert (await asked).fields()["queueOffset"] == "1"
            await stopping


# -- flushes that fail ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["one", "batch"])
@in_loop
async def test_a_failed_flush_is_told_to_all_who_wait_and_ends_writing(tmp_path: Path, kind: str) -> None:
    async with serving(tmp_path, **SYNC) as running:
        member = await begun(running)
        with failing_syncs(is_log) as failed:
            asked = ask_send(member) if kind == "one" else ask_batch(member, batch(b"one", b"two"))
            answer = await asked
            assert answer.code == TIMED_OUT
            assert failed
        end = running.state.store.log.max_offset
        # The disk works again, but nobody knows what it has lost.
        for refused in (await ask_send(member), await ask_batch(member, batch(b"one")), await ask_send(member, "New")):
            assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert "a flush failed: Input/output error" in (refused.remark or "")
            assert refused.fields() == FIXED
        assert running.state.store.log.max_offset == end
        # Reading goes on.
        assert bodies(await pull(member))[0] == b"first"
        assert (await member.ok(RequestCode.GET_MAX_OFFSET, topic="T", queueId="0")).code == 0
        assert running.state.opened.flush_figures.failure_count == 1
    assert (tmp_path / "store" / "abort").exists()
    async with serving(tmp_path, **SYNC) as running:
        assert not running.state.opened.recovered.was_clean
        member = running.member("p1")
        assert bodies(await pull(member))[0] == b"first"
        await send(member)


@in_loop
async def test_a_message_sent_back_is_not_promised_either(tmp_path: Path) -> None:
    async with serving(tmp_path, **SYNC) as running:
        member = await begun(running)
        fields = {"offset": "0", "group": "G", "delayLevel": "1", "originTopic": "T"}
        await member.ok(RequestCode.CONSUMER_SEND_MSG_BACK, **fields)
        with failing_syncs(is_log):
            assert await member.refused(RequestCode.CONSUMER_SEND_MSG_BACK, **fields) == (
                ResponseCode.SYSTEM_ERROR,
                "FLUSH_DISK_TIMEOUT",
            )
        code, _ = await member.refused(RequestCode.CONSUMER_SEND_MSG_BACK, **fields)
        assert code == ResponseCode.SERVICE_NOT_AVAILABLE


@in_loop
async def test_with_async_flush_a_failure_ends_writing_too(tmp_path: Path) -> None:
    async with serving(tmp_path, flushIntervalCommitLog="1") as running:
        member = await begun(running)
        with failing_syncs(is_log) as failed:
            await send(member)
            await eventually(lambda: failed)
            await eventually(lambda: running.state.opened.store.flush_error is not None)
        assert (await refused_send(member))[0] == ResponseCode.SERVICE_NOT_AVAILABLE


@in_loop
async def test_queues_that_cannot_be_synced_end_writing(tmp_path: Path) -> None:
    async with serving(tmp_path, flushIntervalConsumeQueue="1") as running:
        member = await begun(running)
        with failing_syncs(lambda path: "consumequeue" in path.parts):
            await ask_send(member)
            await eventually(lambda: running.state.opened.store.flush_error is not None)
        assert (await refused_send(member))[0] == ResponseCode.SERVICE_NOT_AVAILABLE
        assert bodies(await pull(member))[0] == b"first"


@in_loop
async def test_a_delayed_message_waits_for_writing_to_go_on(tmp_path: Path) -> None:
    async with serving(tmp_path, **SYNC) as running:
        member = await begun(running)
        await send(member, body=b"late", i=encode_properties({"UNIQ_KEY": "U", "DELAY": "18"}))
        with failing_syncs(is_log):
            assert (await ask_send(member)).code == TIMED_OUT
        running.broker.delivery.tick(2**60)
        assert b"late" not in [record.body for record in stored(running.state)]
    async with serving(tmp_path, **SYNC) as running:
        running.broker.delivery.tick(2**60)
        assert b"late" in [record.body for record in stored(running.state)]


# -- full disks ----------------------------------------------------------------------------------------------


@in_loop
async def test_a_disk_without_room_is_said_and_reading_goes_on(tmp_path: Path) -> None:
    async with serving(tmp_path, mappedFileSizeCommitLog="8192") as running:
        member = await begun(running)
        with full_disk(tmp_path / "store"):
            answer: Command | None = None
            for _ in range(100):
                answer = await ask_send(member, body=bytes(500))
                if answer.code:
                    break
            assert answer is not None
            assert (answer.code, answer.remark) == (
                ResponseCode.SYSTEM_ERROR,
                "create mapped file failed, server is busy or broken.",
            )
            end = running.state.store.log.max_offset
            assert (await ask_batch(member, batch(bytes(5000), b""))).code == ResponseCode.SYSTEM_ERROR
            assert running.state.store.log.max_offset == end
            assert bodies(await pull(member))[0] == b"first"
        await send(member, body=bytes(500))


@in_loop
async def test_a_disk_used_beyond_its_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(tmp_path) as running:
        member = await begun(running)
        monkeypatch.setattr(cleaning, "used_percent", lambda folder: 95.0)
        running.state.opened.clean(running.state.now_ms(), hour=12)
        code, remark = await refused_send(member)
        assert code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert remark is not None
        assert "the broker's disk is full [CL:  0.95" in remark
        assert bodies(await pull(member)) == [b"first"]


# -- life ----------------------------------------------------------------------------------------------------


@in_loop
async def test_messages_survive_a_stop_and_a_kill(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = running.member("p1")
        for number in range(50):
            await send(member, body=b"%d" % number, e=str(number % 4))
    expected = [[b"%d" % number for number in range(queue_id, 50, 4)] for queue_id in range(4)]
    killed = tmp_path / "killed"
    async with serving(tmp_path) as running:
        assert running.state.opened.recovered.was_clean
        member = running.member("c1")
        assert [bodies(await pull(member, queue_id=queue_id)) for queue_id in range(4)] == expected
        assert (await send(member)).fields()["queueOffset"] == str(len(expected[0]))
        shutil.copytree(tmp_path / "store", killed / "store", ignore=shutil.ignore_patterns("*.tmp"))
    async with serving(killed) as running:
        assert not running.state.opened.recovered.was_clean
        member = running.member("c1")
        assert bodies(await pull(member, queue_id=0)) == [*expected[0], b"hello"]
        assert bodies(await pull(member, queue_id=3)) == expected[3]


@in_loop
async def test_the_second_port_serves_everything_but_pulls(tmp_path: Path) -> None:
    async with serving(tmp_path, fastPortEnable="true") as running:
        host, _, port = running.address.rpartition(":")
        fast = Client(f"{host}:{int(port) - 2}")
        answer = await send(fast)
        [record] = stored(running.state)
        assert record.store_host[4:] == int(port).to_bytes(4)
        assert answer.fields()["msgId"].startswith(record.store_host.hex().upper())
        refused = await pull(fast)
        assert (refused.code, refused.remark) == (
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            " request type 11 not supported",
        )
        assert (await fast.ok(RequestCode.GET_MAX_OFFSET, topic="T", queueId="0")).fields() == {"offset": "1"}
        await fast.close()


@in_loop
async def test_unknown_requests_are_refused_and_the_connection_lives(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = running.member("c1")
        for code in (0, -1, 9999, 32_000):
            assert await member.refused(code) == (
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                f" request type {code} not supported",
            )
        await send(member)
        assert len(running.server.channels) == 1


@in_loop
async def test_what_every_broker_has_from_the_start(tmp_path: Path) -> None:
    async with serving(tmp_path, brokerName="b", brokerClusterName="c", traceTopicEnable="true") as running:
        topics = running.state.topics
        shapes = {name: (config.read_queue_nums, config.perm) for name, config in topics.topics.items()}
        assert shapes == {
            "SELF_TEST_TOPIC": (1, 6),
            "BenchmarkTest": (1024, 6),
            "c": (16, 7),
            "b": (1, 7),
            "OFFSET_MOVED_EVENT": (1, 6),
            "SCHEDULE_TOPIC_XXXX": (18, 6),
            "c_REPLY_TOPIC": (1, 6),
            "rmq_sys_REVIVE_LOG_c": (8, 6),
            "rmq_sys_SYNC_BROKER_MEMBER_b": (1, 1),
            "RMQ_SYS_TRANS_HALF_TOPIC": (1, 6),
            "RMQ_SYS_TRANS_OP_HALF_TOPIC": (1, 6),
            "rmq_sys_wheel_timer": (1, 6),
            "TBW102": (8, 7),
            "RMQ_SYS_TRACE_TOPIC": (1, 6),
        }
        assert all(topics.is_system(name) for name in shapes)
        topics.topics["BenchmarkTest"].read_queue_nums = 5
        running.broker.tables.topics_changed()
    async with serving(tmp_path, brokerName="b", brokerClusterName="c") as running:
        assert running.state.topics.topics["BenchmarkTest"].read_queue_nums == 5  # as people set it


@in_loop
async def test_a_folder_belongs_to_one_broker_at_a_time(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = await begun(running)
        with pytest.raises(StorageFailed):
            async with serving(tmp_path):
                pass
        await send(member)
    async with serving(tmp_path) as running:
        assert running.state.opened.recovered.was_clean
        assert len(stored(running.state)) == 2


@in_loop
async def test_a_port_in_use_is_an_error_and_nothing_is_left_behind(tmp_path: Path) -> None:
    async with serving(tmp_path / "a") as running:
        port = running.address.rpartition(":")[2]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}"):
            async with serving(tmp_path / "b", listenPort=port):
                pass
        await begun(running)
    assert not (tmp_path / "b" / "store" / "abort").exists()
    async with serving(tmp_path / "b"):
        pass


@in_loop
async def test_stopping_twice_does_no_harm(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        await begun(running)
        await pull(running.member("c1"), 0, flags=HOLDS)
        await running.broker.stop()


def test_delay_levels_that_are_none_are_refused_before_anything_is_opened(tmp_path: Path) -> None:
    given = {"storePathRootDir": str(tmp_path / "store"), "messageDelayLevel": "1s soon"}
    settings, _ = resolve_settings(given, {}, home=tmp_path, host_name="here", local_address="127.0.0.1")
    with pytest.raises(ConfigError, match="messageDelayLevel"):
        Broker(settings, {})
    assert not (tmp_path / "store").exists()
