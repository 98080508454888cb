"""Pulls one queue, over and over, and hands on what comes; pauses while too much of it is unfinished."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from apogeemq.client.broker_calls import PullAnswer
from apogeemq.client.consuming.figures import Figures
from apogeemq.client.consuming.incoming import ConsumedMessage, messages_of
from apogeemq.client.consuming.offset_store import OffsetStore
from apogeemq.client.consuming.process_queue import ProcessQueue
from apogeemq.client.consuming.progress import QueueProgress
from apogeemq.client.instance import ClientInstance
from apogeemq.errors import ApogeeError, NoRoute, RemoteRefused
from apogeemq.model.queues import MessageQueue
from apogeemq.model.subscriptions import TAG, SubscriptionData
from apogeemq.model.topics import MASTER_ID
from apogeemq.protocol.codes import ResponseCode
from apogeemq.protocol.headers import broker as headers
from apogeemq.runtime.clock import monotonic_ms, now_ms

log = logging.getLogger(__name__)

_FULL_SECONDS: Final = 0.05
_FLOW_CONTROL_SECONDS: Final = 0.02
_FAILURE_SECONDS: Final = 1.0
_LOCK_SECONDS: Final = 1.0
MAX_PULL_BYTES: Final = 256 * 1024  # of the messages of one pull, when there is more than one


class ReadingOptions(Protocol):
    """What the readers of any kind of consumer are told."""

    @property
    def is_broadcasting(self) -> bool: ...

    @property
    def start_from(self) -> str | int: ...

    @property
    def pull_batch(self) -> int: ...

    @property
    def max_cached_per_queue(self) -> int: ...

    @property
    def max_cached_bytes_per_queue(self) -> int: ...

    @property
    def max_span_per_queue(self) -> int: ...

    @property
    def rebalance_seconds(self) -> float: ...

    @property
    def suspend_ms(self) -> int: ...

    @property
    def pull_timeout_seconds(self) -> float: ...


class Reading(NamedTuple):
    """What all readers of a consumer share."""

    instance: ClientInstance
    group: str
    options: ReadingOptions
    offsets: OffsetStore
    subscription_of: Callable[[str], SubscriptionData | None]
    deliver: Callable[[QueueReader, list[ConsumedMessage]], None]
    is_ordered: bool
    namespace: str
    # Lite pulls carry their subscription, and no offset to commit.
    is_lite: bool = False
    # Whether the consumer as a whole can take more.
    has_room: Callable[[], bool] = lambda: True
    figures: Figures | None = None
    # Of all queues of a topic together; 0: no limit but those of each queue.
    max_cached_per_topic: int = 0
    max_cached_bytes_per_topic: int = 0

    @property
    def uses_locks(self) -> bool:
        """Where every member reads everything, there is nobody to lock out."""
        return self.is_ordered and not self.options.is_broadcasting


class QueueReader:
    """Runs from `start` to `stop`. `process` holds what was handed on and is not finished."""

    def __init__(self, reading: Reading, queue: MessageQueue, offset: int) -> None:
        self.queue = queue
        self.next_offset = offset
        self.progress = QueueProgress(queue, reading.offsets, ProcessQueue(now_ms(), monotonic_ms()))
        self.max_offset = 0
        self.is_paused = False
        # A topic's share for this queue, where topics are limited as a whole.
        self.max_cached = reading.options.max_cached_per_queue
        self.max_cached_bytes = reading.options.max_cached_bytes_per_queue
        self._reading = reading
        self._offsets = reading.offsets
        self._broker_id = MASTER_ID
        self._task: asyncio.Task[None] | None = None
        self._last_problem = ""

    @property
    def process(self) -> ProcessQueue:
        return self.progress.process

    def start(self) -> None:
        self._task = asyncio.ensure_future(self._run())

    def halt(self) -> None:
        """Nothing more is pulled or handed out; what the program has still counts."""
        self.process.is_leaving = True
        if self._task is not None:
            self._task.cancel()

    async def drain(self, seconds: float) -> None:
        """The same, and wait until the program has settled what it has, but not longer than this."""
        self.halt()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.process.taken_count and not self.process.is_dropped:
                    await self.progress.until_something_is_settled()

    def cancel(self) -> None:
        """Nothing more is handed on, and what was is not counted any more."""
        self.process.is_dropped = True
        self.progress.go_on()
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        self.cancel()
        if self._task is not None:
            await asyncio.wait((self._task,))

    def seek(self, offset: int) -> None:
        """Go on from another offset; what was handed on from the present one is not counted any more, and the answer
        to a pull on its way is not waited for."""
        if not self.process.may_hand_out:  # not read here any more
            return
        self._go_on_from(offset)
        self.pull_anew()

    def pull_anew(self) -> None:
        """Do not wait for the answer to a pull on its way: what it asked for is not wanted any more."""
        if self._task is not None and self.process.may_hand_out:
            self._task.cancel()
            self.start()

    def pause(self) -> None:
        """No more pulls; what is on its way still comes."""
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        self.progress.go_on()

    def _go_on_from(self, offset: int) -> None:
        self.process.is_dropped = True
        self.progress.process = self._new_process()
        self.next_offset = offset
        self._offsets.update(self.queue, offset, only_forward=False)
        self.progress.go_on()

    def finished(self, message: ConsumedMessage, process: ProcessQueue) -> None:
        self.progress.finished(message, process)

    def given(self, messages: Sequence[ConsumedMessage], process: ProcessQueue) -> None:
        self.progress.given(messages, process, self.next_offset)

    def _new_process(self) -> ProcessQueue:
        fresh = ProcessQueue(now_ms(), monotonic_ms())
        fresh.is_locked, fresh.locked_until_ms = self.process.is_locked, self.process.locked_until_ms
        return fresh

    # -- pulling ---------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            if not await self._may_pull():
                continue
            started_ms = monotonic_ms()
            try:
                answer = await self._pull()
                self._take(answer, monotonic_ms() - started_ms)
                self._last_problem = ""
            except RemoteRefused as error:
                await self._pause(error, _FLOW_CONTROL_SECONDS if error.code == ResponseCode.FLOW_CONTROL else None)
            except ApogeeError as error:
                await self._pause(error)

    async def _may_pull(self) -> bool:
        options, process = self._reading.options, self.process
        process.pulled_at_ms = monotonic_ms()  # a queue that waits here for its program is not stuck
        if self._reading.uses_locks and not process.is_lock_valid(monotonic_ms()):
            await asyncio.sleep(_LOCK_SECONDS)
            return False
        is_full = (
            len(process) >= self.max_cached
            or process.size >= self.max_cached_bytes
            or (not self._reading.is_ordered and process.span >= options.max_span_per_queue)
            or not self._reading.has_room()
        )
        if not is_full and not self.is_paused:
            return True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FULL_SECONDS if is_full else _FAILURE_SECONDS):
                await self.progress.until_something_is_settled()
        return False

    async def _pull(self) -> PullAnswer:
        reading, queue = self._reading, self.queue
        subscription = reading.subscription_of(queue.topic)
        address = reading.instance.routes.address(queue.broker_name, self._broker_id)
        if address is None:
            raise NoRoute(f"the broker {queue.broker_name} is not known any more")
        flag, commit_offset = self._flag_and_commit()
        is_told = flag & headers.PULL_SUBSCRIBES  # otherwise the broker goes by our heartbeats
        header = headers.PullMessage(
            consumer_group=reading.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=self.next_offset,
            max_messages=reading.options.pull_batch,
            system_flag=flag,
            commit_offset=commit_offset,
            suspend_ms=reading.options.suspend_ms,
            subscription_version=self._version_of(subscription),
            subscription=subscription.sub_string if subscription is not None and is_told else None,
            expression_type=subscription.expression_type if subscription is not None else None,
            max_bytes=MAX_PULL_BYTES,
            broker_name=queue.broker_name,
        )
        self.process.last_pull_ms = now_ms()
        return await reading.instance.calls.pull(address, header, reading.options.pull_timeout_seconds)

    def _flag_and_commit(self) -> tuple[int, int]:
        reading = self._reading
        if reading.is_lite:
            return headers.PULL_SUSPENDS | headers.PULL_SUBSCRIBES | headers.PULL_LITE, 0
        committed = self._offsets.known(self.queue)
        if committed > 0 and self._broker_id == MASTER_ID and not reading.options.is_broadcasting:
            return headers.PULL_SUSPENDS | headers.PULL_COMMITS, committed
        return headers.PULL_SUSPENDS, 0

    def _version_of(self, subscription: SubscriptionData | None) -> int:
        if subscription is None or (self._reading.is_lite and subscription.expression_type == TAG):
            return 0
        return subscription.sub_version

    def _take(self, answer: PullAnswer, took_ms: int) -> None:
        self._broker_id = answer.suggested_broker_id
        self.max_offset = answer.max_offset
        if answer.code == ResponseCode.PULL_OFFSET_MOVED:
            log.warning("%s: offset %d is not there, going on at %d", self.queue, self.next_offset, answer.next_offset)
            self._go_on_from(answer.next_offset)
            return
        messages: list[ConsumedMessage] = []
        if answer.code == ResponseCode.SUCCESS:
            subscription = self._reading.subscription_of(self.queue.topic)
            messages = messages_of(
                answer.records, self.queue, subscription, self._reading.namespace, first_offset=self.next_offset
            )
            if self._reading.figures is not None:
                self._reading.figures.of(self.queue.topic).pulled(monotonic_ms(), took_ms, len(messages))
        self.next_offset = answer.next_offset  # only now: what cannot be read is not passed over
        fresh = self.process.put(messages)
        if fresh:
            self._reading.deliver(self, fresh)
        elif not len(self.process):
            self._offsets.update(self.queue, self.next_offset)  # nothing here is for us

    async def _pause(self, error: ApogeeError, seconds: float | None = None) -> None:
        if str(error) != self._last_problem:  # said once, not every second
            self._last_problem = str(error)
            log.warning("%s cannot be pulled at the moment: %s", self.queue, error)
        self._broker_id = MASTER_ID
        if error.refresh_routes:
            self._reading.instance.routes.refresh_soon(self.queue.topic)
        await asyncio.sleep(seconds if seconds is not None else _FAILURE_SECONDS)
