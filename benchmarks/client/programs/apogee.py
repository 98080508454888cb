"""Our client, on uvloop or, with the argument `asyncio`, on the standard library's loop."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import uvloop

from apogeemq.client import Consumer, ConsumerOptions, Message, Producer, ProducerOptions
from benchmarks.client.programs.commands import (
    BATCH_BYTES,
    LINGER_SECONDS,
    TAGS,
    Counted,
    Job,
    answer,
    futures,
    jobs,
    sends,
)

_GROUP = "bench-producers"


async def send(name_server: str, job: Job, options: ProducerOptions | None = None) -> dict[str, Any]:
    body = bytes(job.size)
    async with Producer(name_server, group=_GROUP, options=options) as producer:
        await producer.send(job.topic, body, tags=TAGS)
        return await sends(job, lambda: producer.send(job.topic, body, tags=TAGS))


async def joined(name_server: str, job: Job) -> dict[str, Any]:
    return await send(name_server, job, ProducerOptions(joins_sends=True))


async def batch(name_server: str, job: Job) -> dict[str, Any]:
    body = bytes(job.size)
    options = ProducerOptions(linger_seconds=LINGER_SECONDS, batch_bytes=BATCH_BYTES)
    async with Producer(name_server, group=_GROUP, options=options) as producer:
        await producer.send(job.topic, body, tags=TAGS)
        return await futures(job, lambda: producer.send_soon(Message(job.topic, body, TAGS)))


async def soon(name_server: str, job: Job) -> dict[str, Any]:
    body = bytes(job.size)
    async with Producer(name_server, group=_GROUP) as producer:
        await producer.send(job.topic, body, tags=TAGS)
        return await futures(job, lambda: producer.send_soon(Message(job.topic, body, TAGS)))


async def consume(name_server: str, job: Job) -> dict[str, Any]:
    counted = Counted(job)
    options = ConsumerOptions(start_from="first")
    async with Consumer(name_server, group=job.group, topic=job.topic, options=options) as consumer:
        async for message in consumer:
            await message.ack()
            if counted.add():
                break
        return counted.result()


DO = {"send": send, "joined": joined, "batch": batch, "soon": soon, "consume": consume}


def main(name_server: str, loop: str = "uvloop") -> None:
    run = asyncio.run if loop == "asyncio" else uvloop.run
    for job in jobs():
        answer(run(DO[job.do](name_server, job)))


if __name__ == "__main__":
    main(*sys.argv[1:])
