"""How far a consumer is: kept by the brokers for a group that shares queues, by the client for one that does not."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from apogeemq.client.broker_calls import NO_OFFSET
from apogeemq.client.instance import ClientInstance
from apogeemq.errors import ApogeeError, NoRoute, ProtocolError, StorageFailed
from apogeemq.model.queues import MessageQueue
from apogeemq.protocol import javajson
from apogeemq.runtime.atomic_file import read_with_backup, write_atomically

log = logging.getLogger(__name__)

LOCAL_FOLDER: Final = ".rocketmq_offsets"
# A broker may not have come yet to an offset it was told so short a time ago, without being asked for an answer.
_ON_ITS_WAY_SECONDS: Final = 1.0

# (address, group, queue, offset)
_Tell: TypeAlias = Callable[[str, str, MessageQueue, int], Awaitable[None]]


class OffsetStore:
    """`update` remembers, `persist` keeps; `read` gives what was kept, NO_OFFSET when nothing was."""

    def __init__(self) -> None:
        self.table: dict[MessageQueue, int] = {}
        self.changed: set[MessageQueue] = set()

    def update(self, queue: MessageQueue, offset: int, *, only_forward: bool = True) -> None:
        if offset < 0 or (only_forward and offset <= self.table.get(queue, NO_OFFSET)):
            return
        self.table[queue] = offset
        self.changed.add(queue)

    def known(self, queue: MessageQueue) -> int:
        return self.table.get(queue, NO_OFFSET)

    def all_known(self) -> Mapping[MessageQueue, int]:
        return dict(self.table)

    async def read(self, queue: MessageQueue) -> int:
        raise NotImplementedError

    async def persist(self) -> None:
        raise NotImplementedError

    async def release(self, queue: MessageQueue) -> None:
        """The queue is not read here any more: keep its offset."""
        raise NotImplementedError

    async def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Keep these now, also where they go back; when this returns they are kept."""
        raise NotImplementedError


class RemoteOffsets(OffsetStore):
    """With the brokers. What is not persisted when the process dies comes again."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        super().__init__()
        self._instance = instance
        self._group = group
        self._sending: defaultdict[MessageQueue, asyncio.Lock] = defaultdict(asyncio.Lock)  # no offset passes another
        self._told_at: dict[MessageQueue, float] = {}

    async def read(self, queue: MessageQueue) -> int:
        """From the broker; raises an ApogeeError rather than guess when it cannot be asked."""
        return await self._instance.calls.consumer_offset(self._address(queue), self._group, queue)

    async def persist(self) -> None:
        changed, self.changed = self.changed, set()
        try:
            tell = self._instance.calls.update_offset
            kept = [queue for queue in changed if queue in self.table]
            self._told_at.update(dict.fromkeys(kept, asyncio.get_running_loop().time()))
            await asyncio.gather(*(self._persist(queue, self.table[queue], tell) for queue in kept))
        except BaseException:  # cancelled: whoever comes next tells them, once more where they were told
            self.changed |= changed
            raise

    async def release(self, queue: MessageQueue) -> None:
        """Apache's brokers work on several requests at once: only after an answer is the offset there for the next
        member to read."""
        offset, told_at = self.table.get(queue), self._told_at.pop(queue, -_ON_ITS_WAY_SECONDS)
        is_on_its_way = asyncio.get_running_loop().time() < told_at + _ON_ITS_WAY_SECONDS
        if offset is not None and (queue in self.changed or is_on_its_way):
            # When this is cancelled, the offset is here for the last `persist`.
            await self._persist(queue, offset, self._instance.calls.update_offset_and_wait)
        self.table.pop(queue, None)
        self.changed.discard(queue)

    async def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Raises an ApogeeError when a broker does not say yes; the others may have it then."""
        results = await asyncio.gather(
            *(self._commit(queue, offset) for queue, offset in offsets.items()), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _commit(self, queue: MessageQueue, offset: int) -> None:
        async with self._sending[queue]:
            await self._instance.calls.update_offset_and_wait(self._address(queue), self._group, queue, offset)
        self.table[queue] = offset
        self.changed.discard(queue)

    async def _persist(self, queue: MessageQueue, offset: int, tell: _Tell) -> None:
        try:
            async with self._sending[queue]:
                await tell(self._address(queue), self._group, queue, offset)
        except ApogeeError as error:
            if queue in self.table:
                self.changed.add(queue)  # next time
            log.warning("offset %d of %s is not kept yet: %s", offset, queue, error)

    def _address(self, queue: MessageQueue) -> str:
        address = self._instance.routes.address(queue.broker_name)
        if address is None:
            raise NoRoute(f"the broker {queue.broker_name} is not known any more")
        return address


class LocalOffsets(OffsetStore):
    """In a file of this machine, in Apache's format and place: every member of the group reads everything."""

    def __init__(self, folder: Path, client_id: str, group: str) -> None:
        super().__init__()
        self._path = folder / client_id / group / "offsets.json"
        self._writing = asyncio.Lock()

    async def load(self) -> None:
        """StorageFailed when the file is there and cannot be read."""
        kept = await asyncio.to_thread(self._read_file)
        self.table = kept if kept is not None else {}

    def _read_file(self) -> dict[MessageQueue, int] | None:
        return read_with_backup(self._path, _decoded)

    async def read(self, queue: MessageQueue) -> int:
        return self.known(queue)

    async def persist(self) -> None:
        if self.changed or self._writing.locked():
            await asyncio.shield(asyncio.ensure_future(self._write()))  # a thread cannot be called back

    async def _write(self) -> None:
        async with self._writing:
            if not self.changed:
                return
            changed, self.changed = self.changed, set()
            try:
                await asyncio.to_thread(write_atomically, self._path, _encoded(self.table))
            except StorageFailed:
                self.changed |= changed  # next time
                raise

    async def release(self, queue: MessageQueue) -> None:
        try:
            await self.persist()
        except ApogeeError as error:
            log.warning("offsets are not kept yet: %s", error)

    async def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        for queue, offset in offsets.items():
            self.update(queue, offset, only_forward=False)
        await self.persist()


def local_folder(configured: str) -> Path:
    return Path(configured) if configured else Path.home() / LOCAL_FOLDER


def _decoded(content: bytes) -> dict[MessageQueue, int]:
    entries: Any = javajson.parse(content)
    table = entries.get("offsetTable", {}) if isinstance(entries, dict) else None
    if table is None:
        raise ProtocolError("not a file of offsets")
    if not table:
        return {}
    try:
        return {msgspec.convert(queue, MessageQueue): int(offset) for queue, offset in table}
    except (TypeError, ValueError, msgspec.ValidationError) as error:
        raise ProtocolError(f"not a file of offsets: {error}") from None


def _encoded(table: dict[MessageQueue, int]) -> bytes:
    pairs = javajson.Pairs((msgspec.to_builtins(queue), offset) for queue, offset in table.items())
    return javajson.dumps({"offsetTable": pairs})
