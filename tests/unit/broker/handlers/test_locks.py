"""Locks of queues, over the wire."""

from __future__ import annotations

import json
from pathlib import Path

from apogeemq.protocol.codes import RequestCode, ResponseCode
from tests.unit.broker.handlers.members import Member, serving
from tests.unit.event_loop import in_loop

LOCK, UNLOCK = RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ


def request(client_id: str, *queue_ids: int) -> bytes:
    queues = [{"brokerName": "broker-a", "queueId": number, "topic": "T"} for number in queue_ids]
    return json.dumps({"clientId": client_id, "consumerGroup": "G", "mqSet": queues}).encode()


async def lock(member: Member, *queue_ids: int) -> list[int]:
    answer = await member.ok(LOCK, request(member.client_id, *queue_ids))
    return [queue["queueId"] for queue in json.loads(answer.body)["lockOKMQSet"]]


@in_loop
async def test_queues_are_locked_for_one_client_at_a_time(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        first, second = running.member("c1"), running.member("c2")
        assert await lock(first, 0, 1) == [0, 1]
        assert await lock(second, 0, 2) == [2]
        assert running.state.locks.is_locking("G", running.state.now_ms())
        await first.ok(UNLOCK, request("c1", 0, 2, 9))
        assert await lock(second, 0, 1, 2) == [0, 2]
        assert await lock(first) == []


@in_loop
async def test_locks_nobody_can_hold(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = running.member("c1")
        for code in (LOCK, UNLOCK):
            for body in (b"", b"{}", b'{"clientId":"c","mqSet":[]}'):
                refused, _ = await member.refused(code, body)
                assert refused == ResponseCode.SYSTEM_ERROR
        assert running.state.locks.groups == {}
