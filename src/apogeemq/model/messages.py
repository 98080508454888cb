"""Messages: as a program sends them, and as it gets them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

import msgspec

from apogeemq.model import properties as names
from apogeemq.model.properties import KEY_SEPARATOR, decode_properties
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


class ReceivedMessage:
    """A message as it is stored; body and properties are as they were sent."""

    __slots__ = (
        "_encoded_properties",
        "_properties",
        "body",
        "born_host",
        "born_time_ms",
        "flag",
        "physical_offset",
        "queue",
        "queue_offset",
        "reconsume_times",
        "store_host",
        "store_time_ms",
        "system_flag",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        queue: MessageQueue,
        queue_offset: int,
        body: bytes,
        encoded_properties: bytes,
        *,
        physical_offset: int,
        store_host: bytes,
        store_time_ms: int,
        born_host: bytes,
        born_time_ms: int,
        reconsume_times: int,
        system_flag: int,
        flag: int,
    ) -> None:
        self.topic = topic
        self.queue = queue
        self.queue_offset = queue_offset
        self.body = body
        self.physical_offset = physical_offset
        self.store_host = store_host
        self.store_time_ms = store_time_ms
        self.born_host = born_host
        self.born_time_ms = born_time_ms
        self.reconsume_times = reconsume_times
        self.system_flag = system_flag
        self.flag = flag
        self._encoded_properties = encoded_properties
        self._properties: dict[str, str] | None = None

    @property
    def properties(self) -> dict[str, str]:
        """Read when they are asked for."""
        if self._properties is None:
            self._properties = decode_properties(self._encoded_properties.decode(errors="replace"))
        return self._properties

    @property
    def tags(self) -> str:
        return self.properties.get(names.TAGS, "")

    @property
    def keys(self) -> list[str]:
        return [key for key in self.properties.get(names.KEYS, "").split(KEY_SEPARATOR) if key]

    @property
    def offset_id(self) -> str:
        """Where it is stored."""
        from apogeemq.model.ids import offset_id

        return offset_id(self.store_host, self.physical_offset)

    @property
    def message_id(self) -> str:
        """What its producer called it; where it is, when it was not called anything."""
        return self.properties.get(names.UNIQUE_KEY) or self.offset_id

    def __repr__(self) -> str:
        return f"<message {self.message_id} of {self.topic}, queue {self.queue.queue_id} offset {self.queue_offset}>"
