"""Answers that wait for the disk."""

from __future__ import annotations

import asyncio

from apogeemq.broker.promises import FlushPromises
from tests.unit.event_loop import in_loop

KEPT, NOT_KEPT = b"kept", b"not kept"


class Disk:
    def __init__(self) -> None:
        self.request_count = 0
        self.flushed_offset = 0
        self.settled_count = 0
        self.promises = FlushPromises(
            asyncio.get_running_loop(), self._settle, self._request, 1000, lambda: self.flushed_offset
        )

    def _settle(self) -> None:
        self.settled_count += 1

    def _request(self) -> None:
        self.request_count += 1

    def wait_for(self, end_offset: int, now_ms: int = 0) -> asyncio.Future[bytes]:
        promised = self.promises.answer_when_kept(end_offset, now_ms, KEPT, lambda: NOT_KEPT)
        return promised.as_future(asyncio.get_running_loop())


@in_loop
async def test_an_answer_goes_out_when_the_disk_has_its_message_and_not_before() -> None:
    disk = Disk()
    first, second, third = (disk.wait_for(end) for end in (100, 200, 300))
    assert (disk.settled_count, disk.request_count) == (0, 0)
    await asyncio.sleep(0)
    assert (disk.settled_count, disk.request_count) == (1, 1), "one flush for all that came in one turn of the loop"
    disk.promises.flushed(99)
    assert not first.done()
    disk.promises.flushed(200)
    assert (first.result(), second.result()) == (KEPT, KEPT)
    assert not third.done()
    assert len(disk.promises) == 1


@in_loop
async def test_what_the_disk_has_already_is_answered_at_once() -> None:
    """The flush thread may have come between a message and the promise for it: then nobody would tell."""
    disk = Disk()
    disk.flushed_offset = 100
    first, second = disk.wait_for(100), disk.wait_for(101)
    await asyncio.sleep(0)
    assert first.result() == KEPT
    assert not second.done()
    assert disk.request_count == 1


@in_loop
async def test_after_a_failure_nothing_that_waits_is_kept() -> None:
    disk = Disk()
    waiting = [disk.wait_for(end) for end in (100, 200)]
    disk.promises.failed()
    assert [answer.result() for answer in waiting] == [NOT_KEPT] * 2
    assert len(disk.promises) == 0


@in_loop
async def test_who_has_waited_too_long_is_told() -> None:
    disk = Disk()
    early, late = disk.wait_for(100, now_ms=0), disk.wait_for(200, now_ms=500)
    disk.promises.expire(999)
    assert not early.done()
    disk.promises.expire(1000)
    assert early.result() == NOT_KEPT
    assert not late.done()
    disk.promises.flushed(200)
    assert late.result() == KEPT


@in_loop
async def test_who_is_gone_does_not_stop_the_others() -> None:
    disk = Disk()
    gone, first = disk.wait_for(100), disk.wait_for(100)
    gone.cancel()
    disk.promises.flushed(100)
    assert first.result() == KEPT
    gone, second = disk.wait_for(200), disk.wait_for(200)
    gone.cancel()
    disk.promises.failed()
    assert second.result() == NOT_KEPT
