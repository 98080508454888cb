"""One method for each thing a client asks of a broker. RemoteRefused when the broker says no."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import msgspec

from apogeemq.client.send_answers import SendAnswer, send_answer
from apogeemq.errors import ConnectionLost, ProtocolError, RemoteRefused, RequestRefused, TooManyRequests
from apogeemq.model.queues import MessageQueue
from apogeemq.protocol import javajson
from apogeemq.protocol.bodies.heartbeat import Heartbeat, encode_heartbeat
from apogeemq.protocol.codec import encode_request
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.fields import write_fields
from apogeemq.protocol.headers import broker as headers
from apogeemq.protocol.headers.admin import CreateTopic
from apogeemq.protocol.headers.clients import UnregisterClient
from apogeemq.protocol.pull_requests import encode_pull, pull_code
from apogeemq.protocol.record import Record, decode_record
from apogeemq.protocol.send_requests import encode_one_way_send, encode_send, send_code
from apogeemq.transport.pool import ConnectionPool
from apogeemq.transport.pooled_channel import Encode

NO_OFFSET = -1

_SEND_BACK_SECONDS = 5.0


class PullAnswer(msgspec.Struct, frozen=True):
    """`code` is SUCCESS, PULL_NOT_FOUND, PULL_RETRY_IMMEDIATELY or PULL_OFFSET_MOVED."""

    code: int
    next_offset: int
    min_offset: int
    max_offset: int
    suggested_broker_id: int
    records: bytes


_PULLED_CODES = frozenset(
    (
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    )
)


class _ConsumerIds(msgspec.Struct):
    consumerIdList: list[str] | None = None


class _Figures(msgspec.Struct):
    table: dict[str, str] = {}


class _TopicAttributes(msgspec.Struct):
    attributes: dict[str, str] | None = None


class _LockedQueues(msgspec.Struct):
    lockOKMQSet: list[MessageQueue] | None = None


class BrokerCalls:
    """`reached_at` turns an address of a route into the one to connect to; `pulled_at` that for pulls and heartbeats,
    which a broker's second port does not take."""

    def __init__(
        self,
        pool: ConnectionPool,
        timeout_seconds: float,
        reached_at: Callable[[str], str] = lambda address: address,
        pulled_at: Callable[[str], str] | None = None,
    ) -> None:
        self._pool = pool
        self._timeout_seconds = timeout_seconds
        self._reached_at = reached_at
        self._pulled_at = pulled_at or reached_at
        self._without_lite_pull: set[str] = set()
        # Of brokers' addresses, groups and topics: where an offset was told, and where the first one is.
        self._offsets_begun: set[tuple[str, str, str]] = set()
        self._beginning_offsets: defaultdict[tuple[str, str, str], asyncio.Lock] = defaultdict(asyncio.Lock)

    # -- messages --------------------------------------------------------------------------------------------

    async def send(self, address: str, header: headers.SendMessage, body: bytes, timeout_seconds: float) -> SendAnswer:
        answer = await self._pool.ask(
            self._reached_at(address), send_code(header), self._encoder(header, body), timeout_seconds
        )
        return send_answer(answer, address)

    def begin_send(
        self, address: str, header: headers.SendMessage, body: bytes, timeout_seconds: float
    ) -> asyncio.Future[Command] | None:
        """Send at once, for an answer that `send_answer` reads; None when there is no connection to do it over."""
        return self._pool.begin(
            self._reached_at(address), send_code(header), self._encoder(header, body), timeout_seconds
        )

    async def send_one_way(self, address: str, header: headers.SendMessage, body: bytes) -> None:
        encode = self._encoder(header, body, is_one_way=True)
        await self._pool.tell(self._reached_at(address), encode, self._timeout_seconds)

    def _encoder(self, header: headers.SendMessage, body: bytes, *, is_one_way: bool = False) -> Encode:
        is_plain = not header.reconsume_times and header.max_reconsume_times is None and not header.unit_mode
        if is_plain and not self._pool.before_send:
            return partial(encode_one_way_send if is_one_way else encode_send, header, body)
        code = send_code(header)
        fields = self._pool.hooked(code, write_fields(header), body)
        return lambda opaque: encode_request(code, opaque, fields, body, one_way=is_one_way)

    async def pull(self, address: str, header: headers.PullMessage, timeout_seconds: float) -> PullAnswer:
        is_lite = header.system_flag & headers.PULL_LITE
        if is_lite and address in self._without_lite_pull:
            header = msgspec.structs.replace(header, system_flag=header.system_flag & ~headers.PULL_LITE)
            is_lite = 0
        code = pull_code(header)
        if self._pool.before_send:
            answer = await self._pool.request(
                self._pulled_at(address), code, write_fields(header), timeout_seconds=timeout_seconds
            )
        else:
            encode = partial(encode_pull, header)
            answer = await self._pool.ask(self._pulled_at(address), code, encode, timeout_seconds)
        if is_lite and answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:  # a broker of the 4.9 line
            self._without_lite_pull.add(address)
            return await self.pull(address, header, timeout_seconds)
        return pull_answer(answer, address)

    def begin_pulls(
        self, address: str, header: headers.PullMessage, offsets: Iterable[int], timeout_seconds: float
    ) -> list[asyncio.Future[Command]]:
        """Ask at once, once for each offset, for answers that `pull_answer` reads; fewer, or none, when there is no
        connection that takes them all."""
        address, code = self._pulled_at(address), RequestCode.PULL_MESSAGE
        shared, begun = write_fields(header), list[asyncio.Future[Command]]()
        with contextlib.suppress(ConnectionLost, TooManyRequests):
            for offset in offsets:
                fields = self._pool.hooked(code, {**shared, headers.PULL_OFFSET: str(offset)}, b"")
                asked = self._pool.begin(address, code, partial(_encode_pull, fields), timeout_seconds)
                if asked is None:
                    break
                begun.append(asked)
        return begun

    async def send_back(self, address: str, header: headers.SendBack) -> None:
        await self._ask(
            address, RequestCode.CONSUMER_SEND_MSG_BACK, write_fields(header), timeout_seconds=_SEND_BACK_SECONDS
        )

    async def view_message(self, address: str, topic: str, physical_offset: int) -> Record:
        header = headers.ViewMessage(physical_offset, topic)
        answer = await self._ask(address, RequestCode.VIEW_MESSAGE_BY_ID, write_fields(header))
        return decode_record(answer.body)

    async def query_messages(self, address: str, header: headers.QueryMessage) -> list[Record]:
        """Messages whose key has the same hash; whoever asks looks at them."""
        fields = write_fields(header)
        answer = await self._pool.request(
            self._reached_at(address), RequestCode.QUERY_MESSAGE, fields, timeout_seconds=self._timeout_seconds
        )
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return []
        if answer.code != ResponseCode.SUCCESS:
            raise RemoteRefused(answer.code, answer.remark, address)
        return list(records_of(answer.body))

    # -- offsets ---------------------------------------------------------------------------------------------

    async def consumer_offset(
        self, address: str, group: str, queue: MessageQueue, *, zero_if_young: bool | None = None
    ) -> int:
        """NO_OFFSET when the group has none. A broker says 0 instead for a queue that still has its first message,
        unless it is told not to."""
        header = headers.QueryConsumerOffset(group, queue.topic, queue.queue_id, zero_if_young, queue.broker_name)
        answer = await self._pool.request(
            self._reached_at(address),
            RequestCode.QUERY_CONSUMER_OFFSET,
            write_fields(header),
            timeout_seconds=self._timeout_seconds,
        )
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return NO_OFFSET
        return _number(self._checked(answer, address), "offset", address)

    async def update_offset(self, address: str, group: str, queue: MessageQueue, offset: int) -> None:
        """Told without waiting for an answer, but for the first."""
        if not await self._told_as_first(address, group, queue, offset):
            await self._pool.one_way(
                self._reached_at(address),
                RequestCode.UPDATE_CONSUMER_OFFSET,
                _offset_fields(group, queue, offset),
                timeout_seconds=self._timeout_seconds,
            )

    async def update_offset_and_wait(self, address: str, group: str, queue: MessageQueue, offset: int) -> None:
        if not await self._told_as_first(address, group, queue, offset):
            await self._ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, _offset_fields(group, queue, offset))

    async def _told_as_first(self, address: str, group: str, queue: MessageQueue, offset: int) -> bool:
        """Tells it if it is the first, and says whether it was. Of the first offsets of a group and a topic that come
        at the same time, Apache's brokers keep one and lose the others; so the first comes alone."""
        place = (address, group, queue.topic)
        if place in self._offsets_begun:
            return False
        async with self._beginning_offsets[place]:
            if place in self._offsets_begun:
                return False
            try:
                await self._ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, _offset_fields(group, queue, offset))
            finally:  # whoever waits need not wait as long again
                self._offsets_begun.add(place)
                del self._beginning_offsets[place]
        return True

    async def max_offset(self, address: str, queue: MessageQueue) -> int:
        return await self._queue_number(address, RequestCode.GET_MAX_OFFSET, queue, "offset")

    async def min_offset(self, address: str, queue: MessageQueue) -> int:
        return await self._queue_number(address, RequestCode.GET_MIN_OFFSET, queue, "offset")

    async def earliest_time(self, address: str, queue: MessageQueue) -> int:
        return await self._queue_number(address, RequestCode.GET_EARLIEST_MSG_STORETIME, queue, "timestamp")

    async def search_offset(self, address: str, queue: MessageQueue, time_ms: int, *, is_upper: bool = False) -> int:
        boundary = "UPPER" if is_upper else "LOWER"
        header = headers.SearchOffset(queue.topic, queue.queue_id, time_ms, boundary, queue.broker_name)
        answer = await self._ask(address, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, write_fields(header))
        return _number(answer, "offset", address)

    async def create_topic(self, address: str, header: CreateTopic) -> None:
        await self._ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, write_fields(header))

    async def _queue_number(self, address: str, code: RequestCode, queue: MessageQueue, field: str) -> int:
        header = headers.QueueOnly(queue.topic, queue.queue_id, queue.broker_name)
        return _number(await self._ask(address, code, write_fields(header)), field, address)

    async def runtime_info(self, address: str) -> dict[str, str]:
        """What a broker says of itself, in its own words."""
        answer = await self._ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)
        return javajson.loads(answer.body, _Figures).table

    async def topic_attributes(self, address: str, topic: str) -> dict[str, str]:
        answer = await self._ask(address, RequestCode.GET_TOPIC_CONFIG, {"topic": topic})
        return javajson.loads(answer.body, _TopicAttributes).attributes or {}

    # -- the group -------------------------------------------------------------------------------------------

    async def heartbeat(self, address: str, heartbeat: Heartbeat) -> Command:
        answer = await self._pool.request(
            self._pulled_at(address),
            RequestCode.HEART_BEAT,
            body=encode_heartbeat(heartbeat),
            timeout_seconds=self._timeout_seconds,
        )
        return self._checked(answer, address)

    async def unregister(
        self, address: str, client_id: str, producer_group: str | None, consumer_group: str | None
    ) -> None:
        header = UnregisterClient(client_id, producer_group, consumer_group)
        answer = await self._pool.request(
            self._pulled_at(address),
            RequestCode.UNREGISTER_CLIENT,
            write_fields(header),
            timeout_seconds=self._timeout_seconds,
        )
        self._checked(answer, address)

    async def consumer_ids(self, address: str, group: str) -> list[str]:
        answer = await self._ask(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
        return javajson.loads(answer.body, _ConsumerIds).consumerIdList or []

    async def lock(self, address: str, group: str, client_id: str, queues: list[MessageQueue]) -> list[MessageQueue]:
        """The queues this client holds the lock of after the call."""
        answer = await self._ask(
            address, RequestCode.LOCK_BATCH_MQ, body=_lock_body(group, client_id, queues), timeout_seconds=1.0
        )
        return javajson.loads(answer.body, _LockedQueues).lockOKMQSet or []

    async def unlock(self, address: str, group: str, client_id: str, queues: list[MessageQueue]) -> None:
        await self._pool.one_way(
            self._reached_at(address),
            RequestCode.UNLOCK_BATCH_MQ,
            body=_lock_body(group, client_id, queues),
            timeout_seconds=self._timeout_seconds,
        )

    async def _ask(
        self,
        address: str,
        code: RequestCode,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout_seconds: float | None = None,
    ) -> Command:
        answer = await self._pool.request(
            self._reached_at(address), code, fields, body, timeout_seconds=timeout_seconds or self._timeout_seconds
        )
        return self._checked(answer, address)

    def _checked(self, answer: Command, address: str) -> Command:
        if answer.code != ResponseCode.SUCCESS:
            raise RemoteRefused(answer.code, answer.remark, address)
        return answer


def _encode_pull(fields: Mapping[str, str] | None, opaque: int) -> bytes:
    return encode_request(RequestCode.PULL_MESSAGE, opaque, fields)


def pull_answer(answer: Command, address: str) -> PullAnswer:
    """What was found. Raises RemoteRefused."""
    if answer.code not in _PULLED_CODES:
        raise RemoteRefused(answer.code, answer.remark, address)
    try:
        found = headers.read_pull_result(answer)
    except RequestRefused as error:
        raise ProtocolError(f"{address} answered a pull without its offsets: {error}") from None
    return PullAnswer(
        answer.code, found.nextBeginOffset, found.minOffset, found.maxOffset, found.suggestWhichBrokerId, answer.body
    )


def records_of(data: bytes) -> list[Record]:
    """The records a broker's answer holds, one after the other."""
    records: list[Record] = []
    position = 0
    while position < len(data):
        record = decode_record(data, position)
        records.append(record)
        position += record.size
    return records


def _number(answer: Command, field: str, address: str) -> int:
    try:
        return int(answer.fields()[field])
    except (KeyError, ValueError):
        raise ProtocolError(f"{address} answered without the number {field}") from None


def _offset_fields(group: str, queue: MessageQueue, offset: int) -> dict[str, str]:
    return write_fields(headers.UpdateConsumerOffset(group, queue.topic, queue.queue_id, offset, queue.broker_name))


def _lock_body(group: str, client_id: str, queues: list[MessageQueue]) -> bytes:
    return msgspec.json.encode(
        {"clientId": client_id, "consumerGroup": group, "mqSet": queues, "onlyThisBroker": False}
    )
