"""The pulls of one slot: as many as its offsets need, several at once, and again after failures that pass."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from apogeemq.client import MessageQueue, RawPullResult
from apogeemq.errors import ApogeeError, DataLost, NoRoute, RemoteRefused, RouteCause
from apogeemq.protocol.codes import ResponseCode
from apogeemq.spark.cluster import Cluster
from apogeemq.spark.reading.pull_outcome import NotThere, Outcome, outcome_of
from apogeemq.spark.reading.record_batches import Pulled
from apogeemq.spark.reading.slots import PullSizes
from apogeemq.spark.source.message_filter import MessageFilter
from apogeemq.spark.source.ranges import OffsetRange

log = logging.getLogger(__name__)

_MAX_PULL_BYTES: Final = 1024 * 1024
_PULLS_AT_ONCE: Final = 16
# A slot that holds so much is handed over as it is; the rest becomes a slot of its own.
_MAX_SLOT_BYTES: Final = 2 * 1024 * 1024

_NO_TOPIC: Final = frozenset((RouteCause.NO_AUTO_CREATION, RouteCause.NOT_YET))
_NO_SUCH_FILTER: Final = "does not support"


class SlotAnswers:
    """What pulls of a slot brought, in the order of offsets; all before `offset` were answered."""

    def __init__(self, slot: OffsetRange) -> None:
        self._slot = slot
        self._answers: list[bytes] = []  # of the offsets from here on
        self._answered_from = slot.start
        self.offset = slot.start
        self.pulls: list[Pulled] = []
        self.losses: list[DataLost] = []
        self.size = 0

    def add(self, outcome: Outcome, records: bytes) -> None:
        if outcome.why_lost:
            self.close()
            self._go_on_at(outcome.next_offset)
            self.losses.append(DataLost(*self._slot[:3], self._answered_from, self.offset, outcome.why_lost))
            self._answered_from = self.offset
        else:
            self._answers.append(records)
            self.size += len(records)
            self._go_on_at(outcome.next_offset)

    def close(self) -> None:
        """Nothing follows, or nothing that belongs to what is here."""
        if self._answers:
            span = self._slot._replace(start=self._answered_from, end=self.offset)
            self.pulls.append(Pulled(span, self._answers))
            self._answers, self._answered_from = [], self.offset

    def _go_on_at(self, offset: int) -> None:
        self.offset = min(offset, self._slot.end)

    @property
    def rest(self) -> OffsetRange:
        """What was not asked for."""
        return self._slot._replace(start=self.offset)


class SlotPuller:
    """For the ranges of one task; runs in the loop."""

    def __init__(self, cluster: Cluster, wanted: MessageFilter, sizes: PullSizes) -> None:
        self._connection = cluster.connection
        self._consumer = cluster.consumer
        self._wanted = wanted
        self._is_filtered = not wanted.is_everything
        self._sizes = sizes
        self._ended: set[MessageQueue] = set()  # they had nothing more, for all attempts
        self._complaints: dict[MessageQueue, int] = {}  # the offset whose failures are told; one speaks for all

    async def pull(self, slot: OffsetRange) -> SlotAnswers:
        """Raises ApogeeError when a broker does not answer, for all attempts."""
        queue, end, answers = slot.queue, slot.end, SlotAnswers(slot)
        while (offset := answers.offset) < end and answers.size < _MAX_SLOT_BYTES:
            pulls = min(self._sizes.full_pulls(end - offset), _PULLS_AT_ONCE)
            if pulls > 1:
                await self._add_run(answers, queue, pulls)
            else:
                await self._add(answers, queue, end)
        answers.close()
        return answers

    async def _add_run(self, answers: SlotAnswers, queue: MessageQueue, pulls: int) -> None:
        """The answers to several pulls at once; those that bring less than expected leave gaps, which are closed."""
        first, messages = answers.offset, self._sizes.messages
        try:
            found = await self._consumer.pull_raw_run(queue, first, messages, pulls, max_bytes=_MAX_PULL_BYTES)
        except ApogeeError:
            found = []  # a single pull fails as well, or it has passed
        for number, answer in enumerate(found):
            asked_at = first + number * messages
            while answers.offset < asked_at:
                await self._add(answers, queue, asked_at)
            if answers.offset == asked_at:
                try:
                    self._take(answers, messages, answer)
                except ApogeeError as error:
                    answers.add(*await self._ask_again(queue, asked_at, messages, error))
        if not found:
            await self._add(answers, queue, first + messages)

    async def _add(self, answers: SlotAnswers, queue: MessageQueue, end: int) -> None:
        """The answer to a pull of the next offsets."""
        offset = answers.offset
        asked = min(end - offset, self._sizes.wish())
        try:
            self._take(answers, asked, await self._pull(queue, offset, asked))
        except ApogeeError as error:
            answers.add(*await self._ask_again(queue, offset, asked, error))

    def _take(self, answers: SlotAnswers, asked: int, answer: RawPullResult) -> None:
        outcome = outcome_of(answers.offset, answer, is_filtered=self._is_filtered)
        if not outcome.why_lost:
            self._sizes.learn(asked, outcome.next_offset - answers.offset, len(answer.records))
        answers.add(outcome, answer.records)

    async def _pull(self, queue: MessageQueue, offset: int, messages: int) -> RawPullResult:
        wanted = self._wanted
        return await self._consumer.pull_raw(
            *(queue, offset, messages, wanted.tags), sql=wanted.sql, max_bytes=_MAX_PULL_BYTES
        )

    # -- failures --------------------------------------------------------------------------------------------

    async def _ask_again(
        self, queue: MessageQueue, offset: int, messages: int, error: ApogeeError
    ) -> tuple[Outcome, bytes]:
        for delay in self._connection.retry_delays():
            if not _may_pass(error) or queue in self._ended:
                break
            if self._complaints.setdefault(queue, offset) == offset:
                log.warning("%s, from %d: %s; trying again in %g s", _named(queue), offset, error, delay)
            await asyncio.sleep(delay)
            try:
                answer = await self._pull(queue, offset, messages)
                outcome = outcome_of(offset, answer, is_filtered=self._is_filtered)
            except ApogeeError as another:
                error = another
            else:
                self._ended.discard(queue)
                self._complaints.pop(queue, None)
                return outcome, answer.records
        return self._given_up(queue, offset, offset + messages, error), b""

    def _given_up(self, queue: MessageQueue, offset: int, end: int, error: ApogeeError) -> Outcome:
        """Messages that are not there are lost; everything else is a failure."""
        if isinstance(error, NotThere) and error.next_offset is not None:
            return Outcome(error.next_offset, str(error))
        if isinstance(error, NotThere) or _says_no_topic(error):
            self._ended.add(queue)
            return Outcome(end, str(error))
        error.add_note(f"while reading {_named(queue)} from {offset} to {end} (exclusive)")
        raise error


def _may_pass(error: ApogeeError) -> bool:
    """A topic that is not known may be known again: a name server that has just begun knows none. A broker that does
    not filter by SQL says so with a code that stands for anything."""
    is_no_filter = isinstance(error, RemoteRefused) and _NO_SUCH_FILTER in (error.remark or "")
    return error.retriable and not is_no_filter


def _says_no_topic(error: ApogeeError) -> bool:
    if isinstance(error, RemoteRefused):
        return error.code == ResponseCode.TOPIC_NOT_EXIST
    return isinstance(error, NoRoute) and error.cause in _NO_TOPIC


def _named(queue: MessageQueue) -> str:
    return f"topic {queue.topic}, broker {queue.broker_name}, queue {queue.queue_id}"
