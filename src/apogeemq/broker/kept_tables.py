"""The tables that outlive the broker: which file each is kept in, and when.

Topics and groups are written when they change, consumer offsets and delay offsets at intervals; all at a clean stop.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from apogeemq.broker.state import BrokerState
from apogeemq.broker.tables.delay_offsets import DelayOffsets
from apogeemq.broker.tables.table_file import TableFile

SAVE_CHECK_SECONDS = 0.5
_FLUSH_SECONDS = 5.0


class KeptTables:
    def __init__(self, folder: Path, state: BrokerState, delay_offsets: DelayOffsets) -> None:
        self._state = state
        self._delay_offsets = delay_offsets
        self._topics = TableFile(folder / "topics.json", state.topics.content)
        self._groups = TableFile(folder / "subscriptionGroup.json", state.groups.content)
        self._offsets = TableFile(folder / "consumerOffset.json", state.offsets.content)
        self._delays = TableFile(folder / "delayOffset.json", lambda: self._delays_to_keep)
        self._delays_to_keep = b""
        self._files = (self._topics, self._groups, self._offsets, self._delays)
        self._saved_offset_changes = self._saved_delay_changes = 0
        self._is_wanted = asyncio.Event()
        state.groups.on_change = self.groups_changed
        state.keep_topics = self._topics.save
        state.keep_groups = self._groups.save

    @property
    def failure_count(self) -> int:
        return sum(file.failure_count for file in self._files)

    def load(self) -> None:
        """StorageFailed when a file is there but cannot be read: going on would overwrite it."""
        state = self._state
        self._topics.load(state.topics.load)
        self._groups.load(state.groups.load)
        self._offsets.load(state.offsets.load)
        self._delays.load(self._delay_offsets.load)

    def topics_changed(self) -> None:
        self._topics.changed()
        self._is_wanted.set()

    def groups_changed(self) -> None:
        self._groups.changed()
        self._is_wanted.set()

    def tick(self) -> None:
        """Every SAVE_CHECK_SECONDS: a write may be due, or one that failed may succeed now."""
        self._is_wanted.set()

    async def keep(self) -> None:
        """Until cancelled."""
        clock = asyncio.get_running_loop().time
        offsets_due = delays_due = 0.0
        while True:
            await self._is_wanted.wait()
            self._is_wanted.clear()
            await self._topics.save_if_changed()
            await self._groups.save_if_changed()
            if clock() >= offsets_due:
                await self._save_offsets()
                offsets_due = clock() + self._state.config.flush_consumer_offset_interval / 1000
            if clock() >= delays_due:
                await self._save_delays()
                delays_due = clock() + self._state.store_config.flush_delay_offset_interval / 1000

    async def save_all(self) -> None:
        await self._topics.save_if_changed()
        await self._groups.save_if_changed()
        await self._save_offsets()
        await self._save_delays()

    async def _save_offsets(self) -> None:
        count = self._state.offsets.change_count
        if count != self._saved_offset_changes:
            self._saved_offset_changes = count
            self._offsets.changed()
        await self._offsets.save_if_changed()

    async def _save_delays(self) -> None:
        """Not before the log has what they say has been delivered: a power cut must not lose it."""
        count = self._delay_offsets.change_count
        if count != self._saved_delay_changes:
            content = self._delay_offsets.content()
            if not await self._is_log_flushed():
                return
            self._saved_delay_changes, self._delays_to_keep = count, content
            self._delays.changed()
        await self._delays.save_if_changed()

    async def _is_log_flushed(self) -> bool:
        """Up to its present end; False when that fails or takes too long."""
        state = self._state
        if state.store.flush_error is not None:
            return False
        flushed = state.promises.answer_when_kept(state.store.log.max_offset, state.now_ms(), b"yes", lambda: b"")
        try:
            async with asyncio.timeout(_FLUSH_SECONDS):
                return await flushed.as_future(asyncio.get_running_loop()) == b"yes"
        except TimeoutError:
            return False
