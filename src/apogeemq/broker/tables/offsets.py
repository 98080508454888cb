"""How far each group has consumed each queue. Kept in `config/consumerOffset.json`, every few seconds.

A crash costs the commits since the last save: consumers get those messages again.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from apogeemq.model.routes import DataVersion
from apogeemq.protocol import javajson

SEPARATOR = "@"
NO_OFFSET = -1
MAX_QUEUES = 65_536  # of one topic whose offsets are remembered for a group: anybody can name any queue


class OffsetsFile(msgspec.Struct, rename="camel"):
    data_version: DataVersion = DataVersion()
    offset_table: dict[str, dict[int, int]] = {}


class OffsetTable:
    """Keys are `topic@group`, as in the file."""

    def __init__(self, max_keys: int = 1_000_000) -> None:
        self.table: dict[str, dict[int, int]] = {}
        self.pulled: dict[str, dict[int, int]] = {}  # how far pulls have gone, beyond what is committed
        self.resets: dict[str, dict[int, int]] = {}  # where the next pull of a queue must go back or on to
        self.data_version = DataVersion()
        self.change_count = 0
        self._max_keys = max_keys

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """NO_OFFSET when the group has none; an offset that is being reset to counts."""
        key = f"{topic}{SEPARATOR}{group}"
        if self.resets and (reset := self.resets.get(key, {}).get(queue_id)) is not None:
            return reset
        queues = self.table.get(key)
        return queues.get(queue_id, NO_OFFSET) if queues is not None else NO_OFFSET

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Forward or back: the consumer knows best."""
        key = f"{topic}{SEPARATOR}{group}"
        queues = self.table.get(key)
        if queues is None:
            if len(self.table) >= self._max_keys:
                return
            queues = self.table[key] = {}
        if len(queues) < MAX_QUEUES or queue_id in queues:
            queues[queue_id] = offset
            self.change_count += 1

    def pull_offset(self, group: str, topic: str, queue_id: int) -> int:
        offset = self.pulled.get(f"{topic}{SEPARATOR}{group}", {}).get(queue_id)
        return offset if offset is not None else self.query(group, topic, queue_id)

    def set_pull_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        key = f"{topic}{SEPARATOR}{group}"
        queues = self.pulled.get(key)
        if queues is None:
            if len(self.pulled) >= self._max_keys:
                return
            queues = self.pulled[key] = {}
        queues[queue_id] = offset

    # -- resets ----------------------------------------------------------------------------------------------

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """The next pull of the queue is sent to this offset."""
        self.resets.setdefault(f"{topic}{SEPARATOR}{group}", {})[queue_id] = offset
        self.commit(group, topic, queue_id, offset)

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        return bool(self.resets) and queue_id in self.resets.get(f"{topic}{SEPARATOR}{group}", {})

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """The offset a pull must go to; told once."""
        key = f"{topic}{SEPARATOR}{group}"
        queues = self.resets.get(key)
        if queues is None:
            return None
        offset = queues.pop(queue_id, None)
        if not queues:
            del self.resets[key]
        return offset

    # -- topics and groups -----------------------------------------------------------------------------------

    def pairs(self) -> Iterator[tuple[str, str, dict[int, int]]]:
        """(topic, group, offsets by queue)"""
        for key, queues in self.table.items():
            topic, separator, group = key.partition(SEPARATOR)
            if separator:
                yield topic, group, queues

    def topics_of(self, group: str) -> set[str]:
        return {topic for topic, owner, _ in self.pairs() if owner == group}

    def groups_of(self, topic: str) -> set[str]:
        return {group for name, group, _ in self.pairs() if name == topic}

    def remove_topic(self, topic: str) -> None:
        for group in self.groups_of(topic):
            self._remove(f"{topic}{SEPARATOR}{group}")

    def remove_group(self, group: str) -> None:
        for topic in self.topics_of(group):
            self._remove(f"{topic}{SEPARATOR}{group}")

    def _remove(self, key: str) -> None:
        for table in (self.table, self.pulled, self.resets):
            table.pop(key, None)
        self.change_count += 1

    def copy(self, source_group: str, target_group: str, topic: str) -> None:
        """Let one group begin where another is."""
        offsets = self.table.get(f"{topic}{SEPARATOR}{source_group}")
        if offsets is not None:
            self.table[f"{topic}{SEPARATOR}{target_group}"] = dict(offsets)
            self.change_count += 1

    # -- keeping ---------------------------------------------------------------------------------------------

    def load(self, content: bytes) -> None:
        """ProtocolError when it is not the file."""
        file = javajson.loads(content, OffsetsFile, is_limited=False)
        self.table = file.offset_table
        self.data_version = file.data_version

    def content(self) -> bytes:
        """As Java reads it: numbers that are keys are not quoted."""
        return javajson.dumps(
            {
                "dataVersion": msgspec.to_builtins(self.data_version),
                "offsetTable": {k: dict(v) for k, v in self.table.items()},
            }
        )
