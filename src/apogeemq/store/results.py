"""What goes into the store and what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from struct import iter_unpack

import msgspec


class NewMessage(msgspec.Struct, gc=False):
    """A message as a broker has accepted it; lengths and names have been checked."""

    topic: str
    queue_id: int
    flag: int
    system_flag: int
    born_time: int
    born_host: bytes
    store_host: bytes
    reconsume_times: int
    prepared_offset: int
    body: bytes
    properties: bytes
    tags_code: int
    keys: Sequence[str]


class Put(msgspec.Struct, gc=False):
    """Where a message went."""

    physical_offset: int
    queue_offset: int
    size: int
    store_time: int


class PutBatch(msgspec.Struct, gc=False):
    """Where the messages of a batch went: to consecutive offsets of the queue, one after the other in the log."""

    physical_offset: int  # of the first
    packed_offsets: bytes  # of each, eight bytes
    queue_offset: int  # of the first
    size: int  # of all
    store_time: int

    @property
    def physical_offsets(self) -> list[int]:
        return [offset for (offset,) in iter_unpack(">q", self.packed_offsets)]

    @property
    def end(self) -> int:
        """The physical offset after the last one."""
        return self.physical_offset + self.size


class GetStatus(Enum):
    """Of a pull; the names are what Apache's brokers say in the remark."""

    FOUND = 0
    NO_MATCHED_MESSAGE = 1
    MESSAGE_WAS_REMOVING = 2
    OFFSET_FOUND_NULL = 3
    OFFSET_OVERFLOW_BADLY = 4
    OFFSET_OVERFLOW_ONE = 5
    OFFSET_TOO_SMALL = 6
    NO_MATCHED_LOGIC_QUEUE = 7
    NO_MESSAGE_IN_QUEUE = 8
    OFFSET_RESET = 9  # said by the broker, when a person moved the group's offset


class Got(msgspec.Struct, gc=False):
    status: GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    records: bytes = b""
    message_count: int = 0
