"""What goes into the store and what comes out."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class NewMessage(NamedTuple):
    """A message as a broker has accepted it; lengths and names have been checked."""

    topic: str
    topic_part: tuple[int, bytes]  # what `protocol.record.topic_part` makes of the topic
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
    keys: list[str]


class Put(NamedTuple):
    """Where a message went."""

    physical_offset: int
    queue_offset: int
    size: int
    store_time: int


class Arrival(NamedTuple):
    """A message that can now be read from its queue."""

    topic: str
    queue_id: int
    queue_offset: int
    tags_code: int
    store_time: int
    properties: bytes


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


class Got(NamedTuple):
    status: GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    records: bytes = b""
    message_count: int = 0
