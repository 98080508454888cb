"""Messages as a program gets them."""

from __future__ import annotations

from apogeemq.model import properties as names
from apogeemq.model.ids import offset_id
from apogeemq.model.properties import KEY_SEPARATOR, decode_properties
from apogeemq.model.queues import MessageQueue


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
        return offset_id(self.store_host, self.physical_offset)

    @property
    def message_id(self) -> str:
        """What its producer called it; where it is, when it was not called anything."""
        return self.properties.get(names.UNIQUE_KEY) or self.offset_id

    def __repr__(self) -> str:
        return f"<message {self.message_id} of {self.topic}, queue {self.queue.queue_id} offset {self.queue_offset}>"
