"""Delayed messages are delivered when they are due: by hand, with the time as an argument."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from apogeemq.broker.services import delays as service
from apogeemq.model.properties import encode_properties
from apogeemq.model.topics import SCHEDULE_TOPIC
from apogeemq.protocol.record import Record
from apogeemq.store.results import NewMessage
from apogeemq.testing.faulty_files import full_disk
from tests.unit.broker.handlers.members import Serving, serving
from tests.unit.broker.handlers.traffic import HOLDS, bodies, properties_of, pull, send, stored
from tests.unit.event_loop import in_loop
from tests.unit.nameserver.live import eventually

LEVELS = "1s 5s 10s"
HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"


@pytest.fixture(autouse=True)
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker's own clock does not come in between."""
    monkeypatch.setattr("apogeemq.broker.server.TICK_SECONDS", 10_000.0)


def delayed(level: int, **more: str) -> str:
    return encode_properties({"UNIQ_KEY": "U", "TAGS": "A", "DELAY": str(level), **more})


async def sent(running: Serving, level: int, body: bytes, queue_id: int = 0) -> int:
    """When it was stored."""
    await send(running.member("p1"), body=body, e=str(queue_id), i=delayed(level))
    return stored(running.state, SCHEDULE_TOPIC, level - 1)[-1].store_time


def arrived(running: Serving, queue_id: int = 0) -> list[bytes]:
    return [record.body for record in stored(running.state, queue_id=queue_id)]


@in_loop
async def test_each_level_is_delivered_when_its_time_has_come_and_not_before(tmp_path: Path) -> None:
    async with serving(tmp_path, messageDelayLevel=LEVELS) as running:
        tick = running.broker.delivery.tick
        start = await sent(running, 2, b"five")
        await sent(running, 1, b"one")
        await sent(running, 3, b"ten")
        tick(start)
        tick(start + 999)
        assert arrived(running) == []
        tick(start + 1500)
        assert arrived(running) == [b"one"]
        tick(start + 4999)
        assert arrived(running) == [b"one"]
        tick(start + 9000)
        assert arrived(running) == [b"one", b"five"]
        tick(start + 60_000)
        tick(start + 90_000)
        assert arrived(running) == [b"one", b"five", b"ten"]
        assert running.broker.delivery.delivered_count == 3


@in_loop
async def test_what_is_delivered_is_the_message_that_was_sent(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        now = await sent(running, 1, b"body", queue_id=2)
        [waiting] = stored(running.state, SCHEDULE_TOPIC, 0)
        running.broker.delivery.tick(now + 1000)
        [record] = stored(running.state, queue_id=2)
        assert record.topic == b"T"
        for field in ("body", "flag", "system_flag", "born_time", "born_host", "reconsume_times", "properties"):
            assert getattr(record, field) == getattr(waiting, field), field
        assert properties_of(record)["REAL_TOPIC"] == "T"
        member = running.member("c1")
        assert bodies(await pull(member, queue_id=2, subscription="A")) == [b"body"]
        assert (await pull(member, queue_id=2, subscription="B")).code != 0
        found = running.state.store.find_by_key("T", "U", 0, 2**62, 9)
        assert [entry.body for entry in found] == [b"body"]


@in_loop
async def test_a_delivery_wakes_who_waits_for_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        now = await sent(running, 1, b"body")
        asked = asyncio.ensure_future(pull(running.member("c1"), flags=HOLDS, subscription="A"))
        await eventually(lambda: running.broker.held.count)
        running.broker.delivery.tick(now + 1000)
        assert bodies(await asked) == [b"body"]


@in_loop
async def test_what_is_delivered_stays_so_over_a_restart_and_what_waits_goes_on_waiting(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        now = await sent(running, 1, b"early")
        running.broker.delivery.tick(now + 1000)
        await sent(running, 1, b"late")
        await sent(running, 2, b"later")
    content = (tmp_path / "store" / "config" / "delayOffset.json").read_bytes()
    assert content.endswith(b'"offsetTable":{1:1}}')
    async with serving(tmp_path) as running:
        assert arrived(running) == [b"early"]
        running.broker.delivery.tick(now + 3_600_000)
        assert arrived(running) == [b"early", b"late", b"later"]


@in_loop
async def test_how_far_delivery_is_is_not_kept_before_the_log_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power cut could lose a message of which the file says that it was delivered."""
    kept = tmp_path / "store" / "config" / "delayOffset.json"
    async with serving(tmp_path, flushIntervalCommitLog="1000000") as running:
        now = await sent(running, 1, b"body")
        running.broker.delivery.tick(now + 1000)
        flushed_then: list[int] = []
        real = running.broker.tables._delays._write

        def write(content: bytes) -> None:
            flushed_then.append(running.state.opened.flushed_offset)
            real(content)

        monkeypatch.setattr(running.broker.tables._delays, "_write", write)
        end = running.state.store.log.max_offset
        assert running.state.opened.flushed_offset < end
        await running.broker.tables.save_all()
        assert flushed_then == [end]
        assert kept.read_bytes().endswith(b"{1:1}}")


@in_loop
async def test_when_the_clock_is_put_back_nothing_waits_for_it_to_catch_up(tmp_path: Path) -> None:
    async with serving(tmp_path, messageDelayLevel=LEVELS) as running:
        now = await sent(running, 1, b"body")
        running.broker.delivery.tick(now - 100)  # a little is no reason to deliver early
        assert arrived(running) == []
        running.broker.delivery.tick(now - 86_400_000)
        assert arrived(running) == [b"body"]


@in_loop
async def test_a_full_disk_delays_and_loses_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path, mappedFileSizeCommitLog="4096") as running:
        now = 0
        for number in range(20):
            now = await sent(running, 1, b"%d" % number)
        with full_disk(tmp_path / "store"):
            for _ in range(3):
                running.broker.delivery.tick(now + 1000)
        count = len(arrived(running))
        assert count < 20
        running.broker.delivery.tick(now + 1000)
        assert arrived(running) == [b"%d" % number for number in range(20)]


@in_loop
async def test_a_flood_is_delivered_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_MOST_PER_TICK", 2)
    async with serving(tmp_path) as running:
        now = 0
        for number in range(5):
            now = await sent(running, 1, b"%d" % number)
        for count in (2, 4, 5):
            running.broker.delivery.tick(now + 1000)
            assert len(arrived(running)) == count


def forged(properties: dict[str, str]) -> NewMessage:
    encoded = encode_properties(properties).encode()
    return NewMessage(SCHEDULE_TOPIC, 0, 0, 0, 0, HOST, HOST, 0, 0, b"?", encoded, 1, [])


@pytest.mark.parametrize(
    "where",
    [
        {},
        {"REAL_TOPIC": "T"},
        {"REAL_TOPIC": "T", "REAL_QID": "x"},
        {"REAL_TOPIC": "T", "REAL_QID": "-1"},
        {"REAL_TOPIC": "T", "REAL_QID": "²"},
        {"REAL_TOPIC": "T", "REAL_QID": "99999999999999999999"},
        {"REAL_TOPIC": "../../x", "REAL_QID": "0"},
        {"REAL_TOPIC": "t" * 300, "REAL_QID": "0"},
    ],
)
@in_loop
async def test_a_message_that_does_not_say_where_it_belongs_holds_nobody_up(
    tmp_path: Path, where: dict[str, str]
) -> None:
    async with serving(tmp_path) as running:
        now = await sent(running, 1, b"before")
        running.state.store.put(forged({"DELAY": "1", **where}), now)
        await sent(running, 1, b"after")
        for _ in range(3):
            running.broker.delivery.tick(now + 60_000)
        assert arrived(running) == [b"before", b"after"]
        assert {topic for topic, _ in running.state.store.queues} == {"T", SCHEDULE_TOPIC}


@in_loop
async def test_a_failure_on_the_way_delivers_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(tmp_path) as running:
        now = 0
        for number in range(3):
            now = await sent(running, 1, b"%d" % number)
        delivery = running.broker.delivery
        restore: Callable[[Record, int], bool] = delivery._restore

        def break_at_the_second(record: Record, now_ms: int) -> bool:
            if record.body == b"1" and not broken:
                broken.append(True)
                raise RuntimeError("broke")
            return restore(record, now_ms)

        broken: list[bool] = []
        monkeypatch.setattr(delivery, "_restore", break_at_the_second)
        with pytest.raises(RuntimeError):
            delivery.tick(now + 1000)
        delivery.tick(now + 1000)
        assert arrived(running) == [b"0", b"1", b"2"]


@in_loop
async def test_an_offset_beyond_the_queue_is_brought_back(tmp_path: Path) -> None:
    """As after a crash that lost the end of the log, but not the file."""
    async with serving(tmp_path) as running:
        now = await sent(running, 1, b"one")
        running.broker.delay_offsets.set(1, 10)
        running.broker.delivery.tick(now)
        now = await sent(running, 1, b"two")
        running.broker.delivery.tick(now + 1000)
        assert arrived(running) == [b"two"]
