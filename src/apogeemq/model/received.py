"""Messages as a program gets them."""

from __future__ import annotations

from typing import NamedTuple

from apogeemq.model import properties as names
from apogeemq.model.ids import offset_id
from apogeemq.model.properties import KEY_SEPARATOR, decode_properties
from apogeemq.model.queues import MessageQueue


class Origin(NamedTuple):
    """Where and when a message was born and stored."""

    physical_offset: int
    born_time_ms: int
    born_host: bytes
    store_time_ms: int
    store_host: bytes


class ReceivedMessage:
    """A message as it is stored; body and properties are as they were sent.

    What few programs ask for is read when they do; whoever makes messages says how, by `_read_origin`.
    """

    __slots__ = (
        "_encoded_properties",
        "_known_origin",
        "_properties",
        "body",
        "flag",
        "queue",
        "queue_offset",
        "reconsume_times",
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
        reconsume_times: int,
        system_flag: int,
        flag: int,
    ) -> None:
        self.topic = topic
        self.queue = queue
        self.queue_offset = queue_offset
        self.body = body
        self.reconsume_times = reconsume_times
        self.system_flag = system_flag
        self.flag = flag
        self._encoded_properties = encoded_properties
        self._properties: dict[str, str] | None = None
        self._known_origin: Origin | None = None

    def _read_origin(self) -> Origin:
        raise NotImplementedError

    @property
    def _origin(self) -> Origin:
        if self._known_origin is None:
            self._known_origin = self._read_origin()
        return self._known_origin

    @property
    def physical_offset(self) -> int:
        return self._origin.physical_offset

    @property
    def born_time_ms(self) -> int:
        return self._origin.born_time_ms

    @property
    def born_host(self) -> bytes:
        return self._origin.born_host

    @property
    def store_time_ms(self) -> int:
        return self._origin.store_time_ms

    @property
    def store_host(self) -> bytes:
        return self._origin.store_host

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
