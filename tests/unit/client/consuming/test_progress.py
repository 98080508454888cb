"""What is settled moves the offset of its queue, and lets whoever waits for room go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from apogeemq.client.consuming.offset_store import LocalOffsets
from apogeemq.client.consuming.process_queue import ProcessQueue
from apogeemq.client.consuming.progress import QueueProgress
from tests.unit.client.consuming.messages import QUEUE, message
from tests.unit.event_loop import in_loop


def progress(folder: Path) -> tuple[QueueProgress, LocalOffsets]:
    offsets = LocalOffsets(folder, "client", "G")
    return QueueProgress(QUEUE, offsets, ProcessQueue(0)), offsets


@in_loop
async def test_what_an_earlier_process_had_moves_no_offset(tmp_path: Path) -> None:
    it, offsets = progress(tmp_path)
    old = it.process
    first, second = old.put([message(3), message(4)])
    it.finished(first, old)
    assert offsets.known(QUEUE) == 4
    it.process = ProcessQueue(0)
    it.finished(second, old)
    assert offsets.known(QUEUE) == 4


@in_loop
async def test_what_is_dropped_moves_no_offset(tmp_path: Path) -> None:
    it, offsets = progress(tmp_path)
    (first,) = it.process.put([message(3)])
    it.process.is_dropped = True
    it.finished(first, it.process)
    assert offsets.known(QUEUE) == -1


@in_loop
async def test_all_who_wait_go_on_when_something_is_settled(tmp_path: Path) -> None:
    it, _ = progress(tmp_path)
    first, second, third = it.process.put([message(3), message(4), message(5)])
    ways: list[Callable[[], None]] = [
        lambda: it.finished(first, it.process),
        lambda: it.returned(second, it.process),
        lambda: it.given([third], it.process, 6),
    ]
    for settle in ways:
        waiting = [asyncio.ensure_future(it.until_something_is_settled()) for _ in range(2)]
        await asyncio.sleep(0)
        assert not any(each.done() for each in waiting)
        settle()
        async with asyncio.timeout(5):
            await asyncio.gather(*waiting)


@in_loop
async def test_what_was_given_is_known_up_to_the_next_pull(tmp_path: Path) -> None:
    it, offsets = progress(tmp_path)
    first, second = it.process.put([message(3), message(4)])
    it.given([first], it.process, 9)
    assert offsets.known(QUEUE) == 4
    it.given([second], it.process, 9)
    assert offsets.known(QUEUE) == 9
