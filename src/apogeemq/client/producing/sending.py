"""Sends what is ready, and again where that makes sense: until a broker has it or the time is over."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from apogeemq.client.instance import ClientInstance
from apogeemq.client.options import ProducerOptions
from apogeemq.client.producing.destinations import Destinations, QueueSelector, queue_without_namespace
from apogeemq.client.producing.outgoing import Outgoing
from apogeemq.client.send_answers import SendAnswer, send_answer
from apogeemq.errors import ApogeeError, ConnectionLost, RemoteRefused, SendFailed
from apogeemq.model.messages import Message, SendResult, SendStatus
from apogeemq.model.queues import MessageQueue
from apogeemq.protocol.codes import ResponseCode
from apogeemq.protocol.command import Command

_SUCCESS: Final = int(ResponseCode.SUCCESS)
_STATUSES = {status.value: status for status in SendStatus}


class Begun:
    """A first attempt that is on its way, or has been."""

    __slots__ = ("address", "answer", "queue")

    def __init__(self, queue: MessageQueue, address: str, answer: asyncio.Future[Command]) -> None:
        self.queue = queue
        self.address = address
        self.answer = answer


class Attempt(NamedTuple):
    """A first attempt that is over: there is an answer, or an error."""

    outgoing: Outgoing
    message: Message
    queue: MessageQueue
    address: str
    answer: Command | None
    error: ApogeeError | None
    seconds_left: float


class Sending:
    def __init__(self, instance: ClientInstance, options: ProducerOptions, destinations: Destinations) -> None:
        self._loop = asyncio.get_running_loop()  # asked for once: each time is a call of the system
        self._instance = instance
        self._options = options
        self._connections = instance.connections
        self._uses_vip_channel = instance.options.uses_vip_channel  # another address than the one of the map
        self._destinations = destinations
        self._namespace = instance.options.namespace

    # -- at once ---------------------------------------------------------------------------------------------

    async def send(
        self, outgoing: Outgoing, message: Message, queue: MessageQueue | QueueSelector | None, seconds: float
    ) -> SendResult:
        """Where nothing goes wrong, the first attempt is all there is."""
        deadline = self._loop.time() + seconds
        begun = self._first(outgoing, message, seconds) if queue is None else None
        if begun is not None:
            try:
                answer = await begun.answer
                if answer.code == _SUCCESS:
                    return self._sent(outgoing, begun, answer, deadline - seconds)
            except ApogeeError:
                pass  # what is to be done about it is decided below
        return await self.deliver(outgoing, message, queue, deadline, begun)

    def begin(self, outgoing: Outgoing, message: Message) -> asyncio.Future[SendResult]:
        """Send without waiting. A task is made only where something must be waited for, or done again."""
        loop, seconds = self._loop, self._options.send_timeout_seconds
        deadline = loop.time() + seconds
        begun = self._first(outgoing, message, seconds)
        if begun is None:
            return loop.create_task(self.deliver(outgoing, message, None, deadline))
        result: asyncio.Future[SendResult] = loop.create_future()

        def answered(done: asyncio.Future[Command]) -> None:
            error = done.exception()
            if result.done():  # whoever waited has given up
                return
            if error is not None or done.result().code != _SUCCESS:
                _follow(result, loop.create_task(self.deliver(outgoing, message, None, deadline, begun)))
                return
            try:
                result.set_result(self._sent(outgoing, begun, done.result(), deadline - seconds))
            except ApogeeError as problem:
                result.set_exception(problem)

        begun.answer.add_done_callback(answered)
        return result

    def _first(self, outgoing: Outgoing, message: Message, seconds: float) -> Begun | None:
        """The first attempt, begun at once; None when something must be waited for, or a queue be chosen."""
        destinations = self._destinations
        info = destinations.known(outgoing.topic)
        if info is None or not info.queues or message.sharding_key:
            return None
        queue = destinations.next(outgoing.topic, info)
        header = outgoing.header
        header.queue_id, header.broker_name = queue.queue_id, queue.broker_name
        try:
            address = destinations.address(queue)
            most = for_one_attempt(self._options, seconds, self._options.retries)
            answer = None
            if not self._uses_vip_channel:
                answer = self._connections.begin_send(address, header, outgoing.body, most)
            if answer is None:
                answer = self._instance.calls.begin_send(address, header, outgoing.body, most)
        except ApogeeError:
            return None
        return Begun(queue, address, answer) if answer is not None else None

    def _sent(self, outgoing: Outgoing, begun: Begun, answer: Command, started: float) -> SendResult:
        self._destinations.report(begun.queue, started, None)
        return self._result(outgoing, begun.queue, send_answer(answer, begun.address))

    async def one_way(self, outgoing: Outgoing, message: Message, queue: MessageQueue | None, deadline: float) -> None:
        destinations = self._destinations
        info = destinations.known(outgoing.topic)
        if info is None or not info.queues:
            info = await destinations.queues(outgoing.topic, deadline)
        if queue is not None or message.sharding_key:
            chosen = destinations.chosen(queue, message, info)
            await destinations.look_for_broker(chosen, outgoing.topic, deadline)
        else:
            chosen = destinations.next(outgoing.topic, info)
        outgoing.header.queue_id, outgoing.header.broker_name = chosen.queue_id, chosen.broker_name
        await self._instance.calls.send_one_way(destinations.address(chosen), outgoing.header, outgoing.body)

    async def go_on(self, attempt: Attempt) -> SendResult:
        """After a first attempt that somebody else has made, and that was not simply a success."""
        answer: asyncio.Future[Command] = self._loop.create_future()
        if attempt.answer is not None:
            answer.set_result(attempt.answer)
        else:
            answer.set_exception(attempt.error or ConnectionLost(f"{attempt.address} did not answer"))
            answer.exception()  # the route may be gone, and nobody ask for it
        begun = Begun(attempt.queue, attempt.address, answer)
        deadline = self._loop.time() + attempt.seconds_left
        return await self.deliver(attempt.outgoing, attempt.message, None, deadline, begun)

    # -- until it is there -----------------------------------------------------------------------------------

    async def deliver(
        self,
        outgoing: Outgoing,
        message: Message,
        queue: MessageQueue | QueueSelector | None,
        deadline: float,
        begun: Begun | None = None,
    ) -> SendResult:
        loop, destinations = self._loop, self._destinations
        info = destinations.known(outgoing.topic)
        if info is None or not info.queues:
            info = await destinations.queues(outgoing.topic, deadline)
        if queue is not None or message.sharding_key:
            return await self._attempt_once(outgoing, destinations.chosen(queue, message, info), deadline)
        failures: list[ApogeeError] = []
        kept: SendResult | None = None  # stored, but not as well as it should be
        last_broker = ""
        for retries_left in range(self._options.retries, -1, -1):
            if failures and loop.time() >= deadline:
                break
            chosen = begun.queue if begun is not None else destinations.next(outgoing.topic, info, last_broker)
            started = loop.time()
            try:
                result = await self._attempt(outgoing, chosen, deadline, begun, retries_left)
            except ApogeeError as error:
                destinations.report(chosen, started, error)
                if not self._may_do_elsewhere(error):
                    if kept is not None:
                        return kept
                    raise
                failures.append(error)
            else:
                destinations.report(chosen, started, None)
                if result.status is SendStatus.SEND_OK or not self._options.retries_when_not_ok:
                    return result
                kept = result
                failures.append(SendFailed(f"{chosen.broker_name} answered {result.status.name}", []))
            begun, last_broker = None, chosen.broker_name
            self._instance.routes.refresh_soon(outgoing.topic)
            fresh = destinations.known(outgoing.topic)
            info = fresh if fresh is not None and fresh.queues else info
        if kept is not None:
            return kept
        raise _gave_up(outgoing, failures)

    def _may_do_elsewhere(self, error: ApogeeError) -> bool:
        return error.code in self._options.retry_codes if isinstance(error, RemoteRefused) else error.retriable

    async def _attempt_once(self, outgoing: Outgoing, queue: MessageQueue, deadline: float) -> SendResult:
        await self._destinations.look_for_broker(queue, outgoing.topic, deadline)
        try:
            return await self._attempt(outgoing, queue, deadline)
        except ApogeeError as error:
            if error.refresh_routes:
                self._instance.routes.refresh_soon(outgoing.topic)
            raise

    async def _attempt(
        self,
        outgoing: Outgoing,
        queue: MessageQueue,
        deadline: float,
        begun: Begun | None = None,
        retries_left: int = 0,
    ) -> SendResult:
        if begun is not None:
            answer = await begun.answer
            if answer.code != ResponseCode.GO_AWAY:
                return self._result(outgoing, queue, send_answer(answer, begun.address))
        seconds = max(deadline - self._loop.time(), 0.0)
        outgoing.header.queue_id, outgoing.header.broker_name = queue.queue_id, queue.broker_name
        address = self._destinations.address(queue)
        most = for_one_attempt(self._options, seconds, retries_left)
        sent = await self._instance.calls.send(address, outgoing.header, outgoing.body, most)
        return self._result(outgoing, queue, sent)

    def _result(self, outgoing: Outgoing, queue: MessageQueue, sent: SendAnswer) -> SendResult:
        return send_result(outgoing, queue, sent, self._namespace)


def for_one_attempt(options: ProducerOptions, seconds: float, retries_left: int) -> float:
    """Of the seconds that are left."""
    most = options.attempt_timeout_seconds
    return min(seconds, most) if most > 0 and retries_left else seconds


def send_result(outgoing: Outgoing, queue: MessageQueue, sent: SendAnswer, namespace: str = "") -> SendResult:
    if sent.queue_id != queue.queue_id:
        queue = MessageQueue(queue.broker_name, sent.queue_id, queue.topic)
    return SendResult(
        _STATUSES[sent.code],
        outgoing.unique_id,
        sent.offset_ids,
        queue_without_namespace(queue, namespace),
        sent.queue_offset,
        sent.transaction_id,
    )


def _follow(result: asyncio.Future[SendResult], delivering: asyncio.Task[SendResult]) -> None:
    """`result` becomes what the task becomes; who gives up the one gives up the other."""

    def ended(done: asyncio.Task[SendResult]) -> None:
        if result.done() or done.cancelled():
            result.cancel()
        elif (error := done.exception()) is not None:
            result.set_exception(error)
        else:
            result.set_result(done.result())

    delivering.add_done_callback(ended)
    result.add_done_callback(lambda _: delivering.cancel())


def _gave_up(outgoing: Outgoing, failures: list[ApogeeError]) -> SendFailed:
    reasons = "; ".join(str(failure) for failure in failures)
    return SendFailed(f"the message to {outgoing.topic} was not taken in {len(failures)} attempts: {reasons}", failures)
