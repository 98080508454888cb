"""A message that is like the one before is not looked at again; one that is not is."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from apogeemq.client.options import ProducerOptions
from apogeemq.client.producing.accumulator import Accumulator
from apogeemq.client.producing.batch_results import BatchResults
from apogeemq.client.producing.gathered import Gathered
from apogeemq.client.producing.lingering import Lingering
from apogeemq.client.producing.window import Window
from apogeemq.errors import MessageIllegal
from apogeemq.model.messages import Message
from tests.unit.event_loop import in_loop

OPTIONS = ProducerOptions(linger_seconds=60.0, batch_bytes=1000, max_message_size=500)
GOOD = Message("T", b"body", "tags")


async def never(messages: Gathered) -> BatchResults:
    raise AssertionError(f"{messages} were sent")


def lingering(max_count: int = 10, max_bytes: int = 1000) -> tuple[Lingering, Window]:
    window = Window(max_count, 100_000)
    return Lingering(Accumulator(never, 60.0, max_bytes), window, OPTIONS), window


@in_loop
async def test_what_enters_the_window_has_a_result() -> None:
    it, window = lingering()
    first, second = it.begin(GOOD), it.begin(GOOD)
    assert first is not None and second is not None and first is not second
    assert (window.count, window.size) == (2, 8)


@pytest.mark.parametrize(
    "changed",
    [
        {"body": b""},
        {"body": "text"},
        {"body": bytes(501)},
        {"topic": "no topic"},
        {"topic": ""},
        {"tags": "a\x01b"},
        {"flag": 2**31},
        {"properties": {"a": ""}},
        {"keys": ["a\x02"]},
    ],
)
@in_loop
async def test_what_no_broker_would_take_is_refused_also_after_a_good_one(changed: dict[str, object]) -> None:
    it, window = lingering()
    it.begin(GOOD)
    with pytest.raises(MessageIllegal):
        it.begin(msgspec.structs.replace(GOOD, **changed))
    assert window.count == 1


@pytest.mark.parametrize("changed", [{"delay_level": 3}, {"sharding_key": "k"}, {"topic": "%RETRY%G"}])
@in_loop
async def test_what_must_go_alone_is_left(changed: dict[str, object]) -> None:
    it, window = lingering()
    it.begin(GOOD)
    assert it.begin(msgspec.structs.replace(GOOD, **changed)) is None
    assert window.count == 1


@in_loop
async def test_what_the_window_has_no_room_for_must_wait() -> None:
    it, window = lingering(max_count=1)
    assert it.begin(GOOD) is not None
    assert it.begin(GOOD) is None
    window.leave(4)
    assert it.begin(GOOD) is not None


@in_loop
async def test_bodies_that_are_not_bytes_are_looked_at() -> None:
    it, _ = lingering()
    it.begin(GOOD)
    assert asyncio.isfuture(it.begin(msgspec.structs.replace(GOOD, body=bytearray(b"body"))))


@in_loop
async def test_the_loop_has_its_turn_after_many_in_a_row() -> None:
    it, window = lingering(max_count=10_000, max_bytes=100_000)
    while it.begin(GOOD) is not None:
        assert window.count < 1000
    begun = window.count
    assert it.begin(GOOD) is None
    assert it.ends_turn() and not it.ends_turn()
    assert it.begin(GOOD) is not None
    assert window.count == begun + 1
