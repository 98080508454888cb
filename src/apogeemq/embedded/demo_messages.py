"""Messages of the demonstration, sent and pulled with bare requests."""

from __future__ import annotations

import asyncio
import time

from apogeemq.errors import RemoteRefused
from apogeemq.model.properties import TAGS, encode_properties
from apogeemq.model.subscriptions import EVERY_TAG, TAG
from apogeemq.model.topics import AUTO_CREATE_TOPIC
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.fields import write_fields
from apogeemq.protocol.headers import broker as headers
from apogeemq.protocol.record import decode_record
from apogeemq.transport.pool import ConnectionPool

_REQUEST_SECONDS = 10.0
_IN_FLIGHT = 64
_PULL_AT_ONCE = 32


async def send_messages(pool: ConnectionPool, address: str, topic: str, bodies: list[bytes], queue_count: int) -> None:
    """To the queues of a broker in turn, many at a time; RemoteRefused when one is not taken."""
    turn = asyncio.Semaphore(_IN_FLIGHT)

    async def send(number: int, body: bytes) -> None:
        header = headers.SendMessage(
            topic=topic,
            queue_id=number % queue_count,
            system_flag=0,
            born_time=int(time.time() * 1000),
            flag=0,
            producer_group="demo",
            default_topic=AUTO_CREATE_TOPIC,
            default_queue_nums=queue_count,
            properties=encode_properties({TAGS: "demo"}),
        )
        async with turn:
            answer = await pool.request(
                address, RequestCode.SEND_MESSAGE_V2, write_fields(header), body, timeout_seconds=_REQUEST_SECONDS
            )
        if answer.code != ResponseCode.SUCCESS:
            raise RemoteRefused(answer.code, answer.remark, address)

    await send(0, bodies[0])  # makes the topic
    await asyncio.gather(*(send(number, body) for number, body in enumerate(bodies[1:], 1)))


async def pull_messages(pool: ConnectionPool, address: str, topic: str, queue_count: int) -> list[bytes]:
    """The bodies of all messages of all queues."""
    drained = await asyncio.gather(*(_drain(pool, address, topic, queue_id) for queue_id in range(queue_count)))
    return [body for bodies in drained for body in bodies]


async def _drain(pool: ConnectionPool, address: str, topic: str, queue_id: int) -> list[bytes]:
    bodies: list[bytes] = []
    offset = 0
    while True:
        header = headers.PullMessage(
            consumer_group="demo",
            topic=topic,
            queue_id=queue_id,
            queue_offset=offset,
            max_messages=_PULL_AT_ONCE,
            system_flag=headers.PULL_SUBSCRIBES,
            subscription=EVERY_TAG,
            expression_type=TAG,
        )
        answer = await pool.request(
            address, RequestCode.PULL_MESSAGE, write_fields(header), timeout_seconds=_REQUEST_SECONDS
        )
        if answer.code != ResponseCode.SUCCESS:
            return bodies  # the end of the queue
        position = 0
        while position < len(answer.body):
            record = decode_record(answer.body, position)
            bodies.append(record.body)
            position += record.size
        offset = int(answer.fields()["nextBeginOffset"])
