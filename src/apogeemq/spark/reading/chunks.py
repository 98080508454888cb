"""Chunks of pulled records, each large enough to be decoded at once: made in the loop while the last one is decoded."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Final

from apogeemq.errors import DataLost
from apogeemq.spark.reading.pulling import SlotAnswers, SlotPuller
from apogeemq.spark.reading.record_batches import Pulled
from apogeemq.spark.reading.record_heads import MIN_RECORD_SIZE
from apogeemq.spark.reading.slots import PullSizes, slots_of
from apogeemq.spark.source.ranges import OffsetRange

ROWS: Final = 40_000
BYTES: Final = 16 * 1024 * 1024
SLOTS_IN_FLIGHT: Final = 4


class Chunk:
    """Records in the order of offsets, range after range, and what is lost of them."""

    def __init__(self) -> None:
        self.pulls: list[Pulled] = []
        self.losses: list[DataLost] = []
        self._rows = 0
        self._size = 0

    def add(self, answers: SlotAnswers) -> None:
        self.pulls += answers.pulls
        for loss in answers.losses:
            self._add_loss(loss)
        self._size += answers.size
        self._rows += min(sum(pull.span.size for pull in answers.pulls), answers.size // MIN_RECORD_SIZE)

    def _add_loss(self, loss: DataLost) -> None:
        """Those of neighbours are one."""
        last = self.losses[-1] if self.losses else None
        if last is not None and (last.end, last.why) == (loss.start, loss.why) and _queue(last) == _queue(loss):
            self.losses[-1] = DataLost(*_queue(last), last.start, loss.end, last.why)
        else:
            self.losses.append(loss)

    @property
    def is_full(self) -> bool:
        return self._rows >= ROWS or self._size >= BYTES

    @property
    def is_empty(self) -> bool:
        return not self.pulls and not self.losses


def _queue(loss: DataLost) -> tuple[str, str, int]:
    return loss.topic, loss.broker, loss.queue_id


class ChunkFeed:
    """Runs in the loop. One chunk at most waits to be taken; several slots are pulled at once, in order."""

    def __init__(self, puller: SlotPuller, ranges: Iterable[OffsetRange], sizes: PullSizes) -> None:
        self._puller = puller
        self._slots = slots_of(ranges, sizes)
        self._in_flight: deque[asyncio.Task[SlotAnswers]] = deque()
        self._ready: asyncio.Queue[Chunk | None] = asyncio.Queue(1)
        self._feeding: asyncio.Task[None] | None = None
        self._failure: Exception | None = None

    async def start(self) -> None:
        self._feeding = asyncio.get_running_loop().create_task(self._feed_to_end())

    async def take(self) -> Chunk | None:
        """The next one; None after the last. Raises what a pull has raised, once all before it was taken."""
        chunk = await self._ready.get()
        if chunk is None and self._failure is not None:
            raise self._failure
        return chunk

    async def stop(self) -> None:
        """Nothing is pulled any more when this returns."""
        tasks = [*self._in_flight, *([self._feeding] if self._feeding is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _feed_to_end(self) -> None:
        try:
            await self._feed()
        except Exception as error:  # whoever takes the chunks is told
            self._failure = error
        await self._ready.put(None)

    async def _feed(self) -> None:
        chunk = Chunk()
        self._fill()
        while self._in_flight:
            answers = await self._in_flight[0]
            self._in_flight.popleft()
            if (rest := answers.rest).size:
                self._in_flight.appendleft(self._begin(rest))
            self._fill()
            chunk.add(answers)
            if chunk.is_full:
                await self._ready.put(chunk)
                chunk = Chunk()
        if not chunk.is_empty:
            await self._ready.put(chunk)

    def _fill(self) -> None:
        while len(self._in_flight) < SLOTS_IN_FLIGHT and (slot := next(self._slots, None)) is not None:
            self._in_flight.append(self._begin(slot))

    def _begin(self, slot: OffsetRange) -> asyncio.Task[SlotAnswers]:
        return asyncio.get_running_loop().create_task(self._puller.pull(slot))
