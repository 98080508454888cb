"""A broker on a real small file system that fills up: senders are told, readers go on, and what was taken is kept."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers.broker import PULL_SUBSCRIBES
from apogeemq.protocol.record import decode_record
from apogeemq.transport.pool import ConnectionPool
from tests.peers.ours import Broker
from tests.robustness.small_disk import can_mount

pytestmark = pytest.mark.skipif(not can_mount(), reason="mounting a small file system is not allowed here")

DISK_SIZE = 24 << 20
MOUNT = f'mount -t tmpfs -o size={DISK_SIZE} tmpfs "$0" && exec "$@"'
NEVER_MS = 3_600_000


class SmallDiskBroker(Broker):
    """Its store, not its logs, is on a file system that only this process sees and that ends with it."""

    def __init__(self, work_dir: Path, **properties: object) -> None:
        self._folder = work_dir / "store"
        self._folder.mkdir(parents=True)
        sizes = {"mappedFileSizeCommitLog": 1 << 20, "mappedFileSizeConsumeQueue": 20_000}
        index = {"maxHashSlotNum": 1000, "maxIndexNum": 4000}
        super().__init__(
            "", work_dir=work_dir, properties={**sizes, **index, "flushDiskType": "SYNC_FLUSH", **properties}
        )

    def command(self) -> Sequence[str]:
        return ("unshare", "--mount", "sh", "-c", MOUNT, str(self._folder), *super().command())

    @contextmanager
    def full(self, *, but_for: int = 0) -> Iterator[None]:
        """Meanwhile there is room for that many bytes and no more."""
        folder = Path(f"/proc/{self.pid}/root{self._folder}")
        with (folder / "spared").open("wb") as spared, (folder / "filler").open("wb", buffering=0) as filler:
            spared.write(bytes(but_for))
            spared.flush()
            try:
                while filler.write(bytes(4096)):
                    pass
            except OSError:
                (folder / "spared").unlink()
        yield
        (folder / "filler").unlink()


class Asking:
    """One client: sends 20 KB messages to one queue, reads them back."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._pool = ConnectionPool()
        self.taken: list[bytes] = []

    async def send(self) -> Command:
        body = b"%d:" % len(self.taken) + bytes(20_000)
        fields = {"a": "P", "b": "T", "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "1", "h": "0"}
        answer = await self._pool.request(self._broker.address, RequestCode.SEND_MESSAGE_V2, fields, body)
        if answer.code == ResponseCode.SUCCESS:
            self.taken.append(body)
        return answer

    async def send_until(self, is_enough: ResponseCode) -> Command:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            answer = await self.send()
            if answer.code == is_enough:
                return answer
        raise AssertionError(f"never {is_enough.name}; the last answer was {answer.code}: {answer.remark}")

    async def all_read(self) -> list[bytes]:
        found: list[bytes] = []
        while True:
            fields = {
                "consumerGroup": "G",
                "topic": "T",
                "queueId": "0",
                "queueOffset": str(len(found)),
                "maxMsgNums": "32",
                "sysFlag": str(PULL_SUBSCRIBES),
                "subscription": "*",
            }
            answer = await self._pool.request(self._broker.address, RequestCode.PULL_MESSAGE, fields)
            if answer.code != ResponseCode.SUCCESS:
                return found
            position = 0
            while position < len(answer.body):
                record = decode_record(answer.body, position)
                found.append(record.body)
                position += record.size

    async def close(self) -> None:
        await self._pool.close(grace_seconds=0)


def test_without_a_block_left_each_message_is_refused_or_kept(tmp_path: Path) -> None:
    async def scenario(broker: SmallDiskBroker) -> None:
        asking = Asking(broker)
        await asking.send_until(ResponseCode.SUCCESS)
        for room in (0, 4096, 100_000, 1_500_000, 3_000_000):
            with broker.full(but_for=room):
                refused = await asking.send_until(ResponseCode.SYSTEM_ERROR)
                assert refused.remark == "create mapped file failed, server is busy or broken."
                for _ in range(20):
                    await asking.send()
                assert await asking.all_read() == asking.taken
            await asking.send_until(ResponseCode.SUCCESS)
        assert await asking.all_read() == asking.taken
        await asking.close()

    with SmallDiskBroker(tmp_path, cleanResourceInterval=NEVER_MS) as broker:
        asyncio.run(scenario(broker))
        assert broker.stop() == 0


def test_beyond_the_mark_messages_are_refused_until_there_is_room_again(tmp_path: Path) -> None:
    async def scenario(broker: SmallDiskBroker) -> None:
        asking = Asking(broker)
        await asking.send_until(ResponseCode.SUCCESS)
        with broker.full(but_for=2_000_000):
            refused = await asking.send_until(ResponseCode.SERVICE_NOT_AVAILABLE)
            assert refused.remark is not None
            assert "the broker's disk is full [CL:  " in refused.remark
            assert await asking.all_read() == asking.taken
        await asking.send_until(ResponseCode.SUCCESS)
        assert await asking.all_read() == asking.taken
        await asking.close()

    with SmallDiskBroker(tmp_path, cleanResourceInterval=100, cleanFileForciblyEnable="false") as broker:
        asyncio.run(scenario(broker))


def test_a_filling_disk_gives_up_the_oldest_messages(tmp_path: Path) -> None:
    async def scenario(broker: SmallDiskBroker) -> None:
        asking = Asking(broker)
        while len(asking.taken) * 20_000 < 3 * DISK_SIZE:
            await asking.send_until(ResponseCode.SUCCESS)
        fields = {"topic": "T", "queueId": "0"}
        pool, address = asking._pool, broker.address
        deadline = time.monotonic() + 60
        while True:
            answer = await pool.request(address, RequestCode.GET_MIN_OFFSET, fields)
            if int(answer.fields()["offset"]) > len(asking.taken) // 2:
                break
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        await asking.close()

    with SmallDiskBroker(tmp_path, cleanResourceInterval=20) as broker:
        asyncio.run(scenario(broker))
