"""Messages as a program sends them, and what becomes of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

import msgspec

from apogeemq.model import properties as names
from apogeemq.model.queues import MessageQueue


class Message(msgspec.Struct):
    """What is sent. `properties` are the program's own; the system's names are refused there."""

    topic: str
    body: bytes
    tags: str = ""
    keys: Sequence[str] = ()
    properties: Mapping[str, str] = {}
    # Messages with the same key go to the same queue, in order.
    sharding_key: str = ""
    # 1 to 18: delivered after that delay.
    delay_level: int = 0
    flag: int = 0
    # Whether a broker that flushes or replicates synchronously waits for that before it answers.
    waits_for_store: bool = True


class SendStatus(Enum):
    """What a broker could promise; the names are Apache's. In all cases the message is in its log."""

    SEND_OK = 0
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12


class SendResult(msgspec.Struct, frozen=True, gc=False):
    """Where a message went. `message_id` is the unique id its producer gave it, `offset_id` says where it is stored."""

    status: SendStatus
    message_id: str
    offset_id: str
    queue: MessageQueue
    queue_offset: int
    transaction_id: str | None = None


SYSTEM_PROPERTIES: Final = frozenset(
    value for name, value in vars(names).items() if name.isupper() and isinstance(value, str) and len(value) > 1
)
