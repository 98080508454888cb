"""How far each delay level's queue has been delivered. Kept in `config/delayOffset.json`."""

from __future__ import annotations

import msgspec

from apogeemq.model.routes import DataVersion
from apogeemq.protocol import javajson


class DelayOffsetsFile(msgspec.Struct, rename="camel"):
    data_version: DataVersion = DataVersion()
    offset_table: dict[int, int] = {}


class DelayOffsets:
    """Level -> offset of the next message of its queue."""

    def __init__(self, now_ms: int = 0) -> None:
        self.table: dict[int, int] = {}
        self.data_version = DataVersion(timestamp=now_ms)
        self.change_count = 0

    def get(self, level: int) -> int:
        return self.table.get(level, 0)

    def set(self, level: int, offset: int) -> None:
        if self.table.get(level) != offset:
            self.table[level] = offset
            self.change_count += 1

    def load(self, content: bytes) -> None:
        """ProtocolError when it is not the file."""
        file = javajson.loads(content, DelayOffsetsFile)
        self.table = file.offset_table
        self.data_version = file.data_version

    def content(self) -> bytes:
        """As Java reads it: numbers that are keys are not quoted."""
        return javajson.dumps(
            {"dataVersion": msgspec.to_builtins(self.data_version), "offsetTable": dict(sorted(self.table.items()))}
        )
