"""aiokafka, on uvloop. Kafka's partitions stand for RocketMQ's queues."""

from __future__ import annotations

import sys
from typing import Any

import uvloop
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # type: ignore[import-not-found]

from benchmarks.client.programs.commands import (
    BATCH_BYTES,
    LINGER_SECONDS,
    Counted,
    Job,
    answer,
    futures,
    jobs,
    sends,
)

_FILL_IN_FLIGHT = 20_000


async def send(server: str, job: Job) -> dict[str, Any]:
    body = bytes(job.size)
    async with AIOKafkaProducer(bootstrap_servers=server, acks=1) as producer:
        await producer.send_and_wait(job.topic, body)
        return await sends(job, lambda: producer.send_and_wait(job.topic, body))


async def alone(server: str, job: Job) -> dict[str, Any]:
    """A batch takes its first message whatever its size, and no other when it is full: one message each. A request
    still holds one batch of every partition that has one."""
    body = bytes(job.size)
    async with AIOKafkaProducer(bootstrap_servers=server, acks=1, max_batch_size=1) as producer:
        await producer.send_and_wait(job.topic, body)
        return await sends(job, lambda: producer.send_and_wait(job.topic, body))


async def batch(server: str, job: Job) -> dict[str, Any]:
    body = bytes(job.size)
    async with AIOKafkaProducer(
        bootstrap_servers=server, acks=1, linger_ms=int(LINGER_SECONDS * 1000), max_batch_size=BATCH_BYTES
    ) as producer:
        await producer.send_and_wait(job.topic, body)
        return await futures(job, lambda: producer.send(job.topic, body))


async def fill(server: str, job: Job) -> dict[str, Any]:
    body, count = bytes(job.size), 0
    async with AIOKafkaProducer(bootstrap_servers=server, acks=1, max_batch_size=BATCH_BYTES) as producer:
        for count in range(1, job.max_count + 1):
            await producer.send(job.topic, body)
            if count % _FILL_IN_FLIGHT == 0:
                await producer.flush()
    return {"count": count}


async def consume(server: str, job: Job) -> dict[str, Any]:
    counted = Counted(job)
    async with AIOKafkaConsumer(
        job.topic, bootstrap_servers=server, group_id=job.group, auto_offset_reset="earliest"
    ) as consumer:
        async for _ in consumer:
            if counted.add():
                break
        return counted.result()


_DO = {"send": send, "alone": alone, "joined": send, "batch": batch, "fill": fill, "consume": consume}


def main(server: str) -> None:
    for job in jobs():
        answer(uvloop.run(_DO[job.do](server, job)))


if __name__ == "__main__":
    main(sys.argv[1])
