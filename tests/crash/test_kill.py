"""`kill -9` of a broker under load, round after round on one store.

With sync flush, and without it: the kernel keeps what a killed process has written. No acknowledged message is lost,
moved or corrupt. Consumer offsets go back by no more than was committed in the last interval of their flush.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from random import Random

import pytest

from tests.crash.broker_load import Acknowledged, Load
from tests.peers.ours import Broker
from tests.peers.process import wait_for

IS_SOAK = bool(os.environ.get("APOGEE_SOAK"))
ROUNDS = {"SYNC_FLUSH": 100 if IS_SOAK else 5, "ASYNC_FLUSH": 30 if IS_SOAK else 3}
LEAST_ACKNOWLEDGED = 1000
OFFSET_INTERVAL_MS = 200
GRACE_SECONDS = 3.0  # a machine with other things to do keeps the broker from its interval


@pytest.fixture
def broker(tmp_path: Path, flush: str) -> Broker:
    return Broker(
        "",
        work_dir=tmp_path,
        properties={
            "flushDiskType": flush,
            "mappedFileSizeCommitLog": 4 << 20,
            "mappedFileSizeConsumeQueue": 400 * 20,
            "flushConsumerOffsetInterval": OFFSET_INTERVAL_MS,
        },
    )


class Rounds:
    def __init__(self, broker: Broker, seed: int) -> None:
        self.broker = broker
        self.random = Random(seed)
        self.load = Load(broker.address, self.random)
        self.killed_at = time.monotonic()
        self.largest_setback = 0
        self.kept_offset = 0
        self.seen_commits = 0

    async def run(self) -> None:
        """Load until the broker is killed, at a random moment after enough was acknowledged."""
        before = len(self.load.acknowledged)
        async with self.load.connected() as pool:
            sending = asyncio.create_task(self.load.send_until_gone(pool))
            while len(self.load.acknowledged) - before < LEAST_ACKNOWLEDGED:
                await asyncio.sleep(0.01)
                assert not sending.done(), self.broker.tail()
            await asyncio.sleep(self.random.random() * 0.5)
            await asyncio.to_thread(self._kill)
            await sending

    def _kill(self) -> None:
        self.killed_at = time.monotonic()
        self.broker.kill()

    def kill_while_starting(self) -> None:
        self.broker.launch()
        time.sleep(self.random.random() * 0.6)
        self.broker.kill()

    async def check(self, expected: list[Acknowledged]) -> None:
        async with self.load.connected() as pool:
            assert await self.load.problems(pool, expected) == []
            kept = await self.load.committed_offset(pool)
        committed = self.load.committed
        old_enough = self.killed_at - OFFSET_INTERVAL_MS / 1000 - GRACE_SECONDS
        this_round = committed[self.seen_commits :]
        promised = max((commit.offset for commit in this_round if commit.at <= old_enough), default=self.kept_offset)
        assert promised <= kept <= committed[-1].offset + 1  # the last one may have been taken, but not answered
        self.largest_setback = max(self.largest_setback, committed[-1].offset - kept)
        self.kept_offset, self.seen_commits = kept, len(committed)


@pytest.mark.timeout(3600 if IS_SOAK else 120)
@pytest.mark.parametrize("flush", ROUNDS)
def test_nothing_acknowledged_is_lost(broker: Broker, flush: str) -> None:
    count = ROUNDS[flush]
    rounds = Rounds(broker, seed=int(os.environ.get("APOGEE_SEED", "1")))
    acknowledged = rounds.load.acknowledged
    with broker:
        seen = 0
        for number in range(count):
            asyncio.run(rounds.run())
            if rounds.random.random() < 0.2:
                rounds.kill_while_starting()
            broker.start()
            asyncio.run(rounds.check(acknowledged[seen:] if number < count - 1 else acknowledged))
            seen = len(acknowledged)
        assert broker.stop() == 0
        assert wait_for(lambda: not (broker.work_dir / "store" / "abort").exists(), "the store is closed")
    assert len(acknowledged) >= count * LEAST_ACKNOWLEDGED
    print(
        f"{count} rounds of kill -9, {flush}: {len(acknowledged)} messages acknowledged, 0 lost, 0 moved, 0 corrupt; "
        f"{len(rounds.load.sent)} sent; consumer offset at most {rounds.largest_setback} commits back"
    )
