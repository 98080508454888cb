"""Long ranges read by the task's own thread: answers of brokers go straight to where they are decoded.

This is for what is usual: brokers that bring many messages at once, and all there are. At the first answer that is
anything else, the rest of the range is left to the loop.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterator
from typing import Final

from apogeemq.client import PullStatus
from apogeemq.client.consuming.pulling.pull_run import PullRun, RunAnswer
from apogeemq.errors import ApogeeError
from apogeemq.model.topics import MASTER_ID
from apogeemq.spark.cluster import Cluster
from apogeemq.spark.reading import chunks
from apogeemq.spark.reading.chunks import Chunk
from apogeemq.spark.reading.record_batches import Pulled
from apogeemq.spark.reading.slots import PullSizes
from apogeemq.spark.source.ranges import OffsetRange

log = logging.getLogger(__name__)

_MIN_OFFSETS: Final = 4096  # of a range that is worth a connection
_MIN_MESSAGES: Final = 256  # that a pull brings; of smaller ones the loop has more under way
_PULLS_AT_ONCE: Final = 4
_MAX_PULL_BYTES: Final = 1024 * 1024
_BUFFER_SIZE: Final = chunks.BYTES + (_PULLS_AT_ONCE + 1) * _MAX_PULL_BYTES
# An answer that is smaller, and yet not all, is limited by the number of messages, whatever their size.
_SMALL_ANSWER: Final = 128 * 1024
_TRIED_AGAIN_SECONDS: Final = 600.0

_buffers: list[bytearray] = []  # those no task uses
# Until when brokers, by their name server and name, are left to the loop because they bring few messages at once.
_bring_few: dict[tuple[str, str], float] = {}


class DirectPulls:
    """Of one task."""

    def __init__(self, cluster: Cluster, sizes: PullSizes) -> None:
        self._cluster = cluster
        self._sizes = sizes
        self._is_usual = True

    def read(self, wanted: OffsetRange) -> Generator[Chunk, None, OffsetRange]:
        """Gives what is left. The records of a chunk are good until the next one is asked for."""
        broker = self._cluster.connection.name_server, wanted.broker
        is_left_alone = _bring_few.get(broker, 0.0) > time.monotonic()
        if not self._is_usual or wanted.size < _MIN_OFFSETS or is_left_alone:
            return wanted
        try:
            buffer = _buffers.pop()
        except IndexError:
            buffer = bytearray(_BUFFER_SIZE)
        reading = _Reading(wanted, memoryview(buffer), self._sizes)
        try:
            try:
                yield from self._read(reading, wanted)
            except ApogeeError as error:  # it may pass
                log.info("%s: %s; going on by other means from %d", wanted.queue, error, reading.done)
            if reading.has_some:
                yield reading.chunk()
        finally:
            _buffers.append(buffer)
        self._is_usual = reading.done == wanted.end
        if reading.brought_few:
            _bring_few[broker] = time.monotonic() + _TRIED_AGAIN_SECONDS
        return wanted._replace(start=reading.done)

    def _read(self, reading: _Reading, wanted: OffsetRange) -> Iterator[Chunk]:
        consumer = self._cluster.consumer
        target = self._cluster.run(lambda: consumer.run_target(wanted.queue, max_bytes=_MAX_PULL_BYTES))
        if target is not None:
            with PullRun(target) as run:
                while reading.goes_on(run):
                    yield reading.chunk()


class _Reading:
    """How far a range has been read: before `done` everything is there."""

    def __init__(self, wanted: OffsetRange, buffer: memoryview, sizes: PullSizes) -> None:
        self._wanted = wanted
        self._buffer = buffer
        self._sizes = sizes
        self._asked = self.done = self._given = wanted.start
        self._size = 0
        self._short_answers = 0  # in a row
        self.brought_few = False
        self._early: dict[int, tuple[int, bytearray]] = {}  # answers to later pulls, by offset: their ends, records

    def goes_on(self, run: PullRun) -> bool:
        """Reads until a chunk is full; False when the range has ended, or something was not as usual."""
        while self.done < self._wanted.end and self._sizes.messages >= _MIN_MESSAGES:
            self._ask(run)
            if not self._take(run):
                return False
            if self._size >= chunks.BYTES or self.done - self._given >= chunks.ROWS:
                return True
        return False

    def _ask(self, run: PullRun) -> None:
        while run.waiting + len(self._early) < _PULLS_AT_ONCE and self._asked < self._wanted.end:
            messages = min(self._sizes.messages, self._wanted.end - self._asked)
            run.ask(self._asked, messages)
            self._asked += messages

    def _take(self, run: PullRun) -> bool:
        head = run.head()
        if not _is_usual(head):
            return False
        end, asked_end = head.answer.next_offset, head.offset + head.messages
        self._learn(head, end)
        if end < asked_end:  # later pulls begin behind that
            run.ask(end, asked_end - end)
        if head.offset != self.done:
            records = bytearray(head.size)
            run.body(memoryview(records))
            self._early[head.offset] = end, records
            return True
        if self._size + head.size > len(self._buffer):
            return False
        run.body(self._buffer[self._size : self._size + head.size])
        self._have(end, head.size)
        while (early := self._early.pop(self.done, None)) is not None:
            end, records = early
            if self._size + len(records) > len(self._buffer):
                return False
            self._buffer[self._size : self._size + len(records)] = records
            self._have(end, len(records))
        return True

    def _learn(self, head: RunAnswer, end: int) -> None:
        """One that brings less than it was asked for may have come to the end of a file; a second one tells how much
        the broker brings at most."""
        if head.messages < self._sizes.messages:
            return
        messages = end - head.offset
        self._short_answers = self._short_answers + 1 if messages < head.messages else 0
        if self._short_answers != 1:
            self._sizes.learn(head.messages, messages, head.size)
            self.brought_few = self._sizes.messages < _MIN_MESSAGES and head.size < _SMALL_ANSWER

    def _have(self, end: int, size: int) -> None:
        self.done, self._size = end, self._size + size

    @property
    def has_some(self) -> bool:
        return self.done > self._given

    def chunk(self) -> Chunk:
        """What has come since the last."""
        chunk = Chunk()
        span = self._wanted._replace(start=self._given, end=self.done)
        chunk.pulls.append(Pulled(span, [self._buffer[: self._size]]))
        self._given, self._size = self.done, 0
        return chunk


def _is_usual(head: RunAnswer) -> bool:
    answer = head.answer
    return (
        answer.code == PullStatus.FOUND.value
        and head.offset < answer.next_offset <= head.offset + head.messages
        and answer.suggested_broker_id == MASTER_ID
    )
