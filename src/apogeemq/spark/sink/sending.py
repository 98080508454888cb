"""Requests of one task on their way to brokers: several at once, those of an ordered queue one after the other, each
tried again until a broker has it or the attempts are used up."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from apogeemq.client import MessageQueue, Producer
from apogeemq.errors import ApogeeError, ConnectFailed, NoRoute, RemoteRefused, SendFailed, TooManyRequests
from apogeemq.protocol.codes import ResponseCode
from apogeemq.spark.cluster import may_pass
from apogeemq.spark.sink.requests import ANY_QUEUE, Request
from apogeemq.spark.sink.write_options import WriteOptions

log = logging.getLogger(__name__)

# Answers that will hardly change; another broker, or a route that is fresh, gets a few chances.
_HARDLY_CHANGING: Final = frozenset((ResponseCode.NO_PERMISSION, ResponseCode.TOPIC_NOT_EXIST))
_FEW: Final = 3
_NOT_SENT: Final = (ConnectFailed, NoRoute, TooManyRequests)
# Refusals before anything is stored; after others, nobody knows.
_NOT_STORED: Final = frozenset(
    (
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.MESSAGE_ILLEGAL,
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.INVALID_PARAMETER,
    )
)


class Guard(Protocol):
    """What stands between a task and its sends."""

    async def queues(self, topic: str) -> Sequence[MessageQueue]:
        """Those that messages of the topic may go to."""
        ...

    async def let_pass(self, queue: MessageQueue) -> None:
        """Called right before each send; raises when the task must send nothing more."""
        ...

    async def is_stored(self, request: Request, queue: MessageQueue) -> bool:
        """After a send of which nobody knows whether it arrived: whether it did."""
        ...


class AtLeastOnce:
    """What may have arrived is sent again."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    async def queues(self, topic: str) -> Sequence[MessageQueue]:
        return await self._producer.queues(topic)

    async def let_pass(self, queue: MessageQueue) -> None:
        pass

    async def is_stored(self, request: Request, queue: MessageQueue) -> bool:
        return False


class Sender:
    """Of one task; to be used in the loop. After an error nothing more is begun."""

    def __init__(self, producer: Producer, options: WriteOptions, guard: Guard) -> None:
        self._producer = producer
        self._options = options
        self._guard = guard
        self._slots = asyncio.Semaphore(options.max_in_flight)
        self._turn = random.randrange(1024)
        self._queue_locks: dict[tuple[str, int], asyncio.Lock] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self.row_count = 0
        self.request_count = 0

    async def add(self, requests: Iterable[Request]) -> None:
        """Returns when all of them are begun: waits while too many are on their way."""
        for request in requests:
            await self._slots.acquire()
            self._raise_failure()
            task = asyncio.get_running_loop().create_task(self._carry(request))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def finish(self) -> None:
        """Waits until brokers have everything."""
        while self._running:
            await asyncio.wait(tuple(self._running))
        self._raise_failure()

    async def cancel(self) -> None:
        """Nothing more is sent; what has left is not called back."""
        self._failure = self._failure or asyncio.CancelledError()
        for task in tuple(self._running):
            task.cancel()
        if self._running:
            await asyncio.wait(tuple(self._running))

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _carry(self, request: Request) -> None:
        try:
            if request.queue == ANY_QUEUE:
                await self._deliver(request)
            else:
                lock = self._queue_locks.setdefault((request.topic, request.queue), asyncio.Lock())
                async with lock:  # those who wait get it in the order in which they came
                    self._raise_failure()
                    await self._deliver(request)
            self.row_count += request.row_count
            self.request_count += 1
        except BaseException as error:
            if self._failure is None:
                self._failure = error
        finally:
            self._slots.release()

    async def _deliver(self, request: Request) -> None:
        failures: list[ApogeeError] = []
        delays = self._options.connection.retry_delays()
        last_broker = ""
        while True:
            try:
                queue = self._chosen(request, await self._guard.queues(request.topic), last_broker)
                await self._guard.let_pass(queue)
            except ApogeeError as error:  # nothing was sent
                failures.append(error)
                self._give_up_if_hopeless(request, failures)
            else:
                failure = await self._attempt(request, queue)
                if failure is None:
                    return
                failures.append(failure)
                self._give_up_if_hopeless(request, failures)
                last_broker = queue.broker_name
            delay = next(delays, None)
            if delay is None:
                raise _gave_up(request, failures)
            log.warning("%s; trying again in %g s", failures[-1], delay)
            await asyncio.sleep(delay)

    async def _attempt(self, request: Request, queue: MessageQueue) -> ApogeeError | None:
        """None when the broker has it."""
        try:
            await self._producer.send_encoded(
                queue, request.body, properties=request.properties, system_flag=request.system_flag
            )
        except ApogeeError as error:
            if may_have_arrived(error) and await self._guard.is_stored(request, queue):
                return None
            return error
        return None

    def _chosen(self, request: Request, queues: Sequence[MessageQueue], last_broker: str) -> MessageQueue:
        if request.queue != ANY_QUEUE:
            return queues[request.queue % len(queues)]
        for _ in range(len(queues)):
            self._turn += 1
            queue = queues[self._turn % len(queues)]
            if queue.broker_name != last_broker:
                return queue
        return queues[self._turn % len(queues)]

    def _give_up_if_hopeless(self, request: Request, failures: list[ApogeeError]) -> None:
        if not may_pass(failures[-1]):
            raise failures[-1]
        refused = [one for one in failures if isinstance(one, RemoteRefused) and one.code in _HARDLY_CHANGING]
        if len(refused) >= _FEW:
            raise _gave_up(request, failures)


def may_have_arrived(error: ApogeeError) -> bool:
    """Whether the messages of a send that ended like this may be in a broker's log."""
    if isinstance(error, RemoteRefused):
        return error.code not in _NOT_STORED
    return not isinstance(error, _NOT_SENT)


def _gave_up(request: Request, failures: list[ApogeeError]) -> SendFailed:
    return SendFailed(
        f"{request.row_count} messages to {request.topic} were not taken in {len(failures)} attempts; "
        f"the last one: {failures[-1]}",
        failures,
    )
