"""Producers and a consumer at a broker that may die any moment: what it acknowledged, and whether it still has it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import NamedTuple

from apogeemq.errors import ConnectFailed, ConnectionLost, RequestTimedOut
from apogeemq.model.properties import encode_properties
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.headers.broker import PULL_SUBSCRIBES
from apogeemq.protocol.record import Record, decode_record, is_intact
from apogeemq.transport.pool import ConnectionPool

TOPICS = ("crash-a", "crash-b", "crash-c")
QUEUES = 4
GROUP = "crash-group"
SENDERS = 16
GONE = (ConnectFailed, ConnectionLost, RequestTimedOut)


class Acknowledged(NamedTuple):
    """Where a message went, by the broker's word."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    body: bytes


class Committed(NamedTuple):
    at: float
    offset: int


class Load:
    """Of all rounds. `acknowledged` grows while `send_until_gone` runs."""

    def __init__(self, address: str, random: Random) -> None:
        self._address = address
        self._random = random
        self._number = 0
        self.acknowledged: list[Acknowledged] = []
        self.committed: list[Committed] = []
        self.sent: set[bytes] = set()

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[ConnectionPool]:
        pool = ConnectionPool()
        try:
            yield pool
        finally:
            await pool.close(grace_seconds=0)

    # -- load ------------------------------------------------------------------------------------------------

    async def send_until_gone(self, pool: ConnectionPool) -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(SENDERS):
                tasks.create_task(self._send(pool))
            tasks.create_task(self._commit(pool))

    async def _send(self, pool: ConnectionPool) -> None:
        random = self._random
        while True:
            self._number += 1
            topic, queue_id = random.choice(TOPICS), random.randrange(QUEUES)
            body = b"%d:" % self._number + random.randbytes(random.choice((10, 200, 2000, 20_000)))
            fields = {
                "a": "crash-producers",
                "b": topic,
                "c": "TBW102",
                "d": str(QUEUES),
                "e": str(queue_id),
                "f": "0",
                "g": str(time.time_ns() // 1_000_000),
                "h": "0",
                "i": encode_properties({"UNIQ_KEY": f"{self._number:032X}", "KEYS": f"k{self._number}"}),
            }
            self.sent.add(body)
            try:
                answer = await pool.request(self._address, RequestCode.SEND_MESSAGE_V2, fields, body)
            except GONE:
                return
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            where = answer.fields()
            physical_offset = int(where["msgId"][-16:], 16)
            assert int(where["queueId"]) == queue_id
            self.acknowledged.append(Acknowledged(topic, queue_id, int(where["queueOffset"]), physical_offset, body))

    async def _commit(self, pool: ConnectionPool) -> None:
        """A consumer that says how far it is; its offset only grows."""
        group = b'{"groupName":"%b"}' % GROUP.encode()
        await pool.request(self._address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, group)
        offset = self.committed[-1].offset if self.committed else 0
        while True:
            offset += 1
            fields = {"consumerGroup": GROUP, "topic": TOPICS[0], "queueId": "0", "commitOffset": str(offset)}
            try:
                answer = await pool.request(self._address, RequestCode.UPDATE_CONSUMER_OFFSET, fields)
            except GONE:
                return
            if answer.code == ResponseCode.SUCCESS:  # not before the topic is there
                self.committed.append(Committed(time.monotonic(), offset))
            await asyncio.sleep(0.005)

    # -- looking ---------------------------------------------------------------------------------------------

    async def committed_offset(self, pool: ConnectionPool) -> int:
        fields = {"consumerGroup": GROUP, "topic": TOPICS[0], "queueId": "0", "setZeroIfNotFound": "false"}
        answer = await pool.request(self._address, RequestCode.QUERY_CONSUMER_OFFSET, fields)
        return int(answer.fields()["offset"]) if answer.code == ResponseCode.SUCCESS else 0

    async def problems(self, pool: ConnectionPool, expected: list[Acknowledged]) -> list[str]:
        """What is lost, moved or corrupt of these, and what nobody sent."""
        found = []
        wanted: dict[tuple[str, int], list[Acknowledged]] = {}
        for message in expected:
            wanted.setdefault((message.topic, message.queue_id), []).append(message)
        for (topic, queue_id), messages in wanted.items():
            first = min(message.queue_offset for message in messages)
            records = await self._pulled(pool, topic, queue_id, first)
            for message in messages:
                record = records.get(message.queue_offset)
                if record is None:
                    found.append(f"lost: {message[:4]}")
                elif record.physical_offset != message.physical_offset:
                    found.append(f"moved: {message[:4]}")
                elif record.body != message.body:
                    found.append(f"corrupt: {message[:4]}")
            found += [f"strange: {record}" for record in records.values() if not self._is_known(record)]
        return found

    def _is_known(self, record: Record) -> bool:
        return is_intact(record) and record.body in self.sent

    async def _pulled(self, pool: ConnectionPool, topic: str, queue_id: int, offset: int) -> dict[int, Record]:
        records: dict[int, Record] = {}
        while True:
            fields = {
                "consumerGroup": GROUP,
                "topic": topic,
                "queueId": str(queue_id),
                "queueOffset": str(offset),
                "maxMsgNums": "32",
                "sysFlag": str(PULL_SUBSCRIBES),
                "subscription": "*",
            }
            answer = await pool.request(self._address, RequestCode.PULL_MESSAGE, fields)
            if answer.code != ResponseCode.SUCCESS:
                return records
            position = 0
            while position < len(answer.body):
                record = decode_record(answer.body, position)
                records[record.queue_offset] = record
                position += record.size
            offset = int(answer.fields()["nextBeginOffset"])
