"""The one way a message enters the store: limits, delay levels, and what a store that cannot answers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

import msgspec

from apogeemq.errors import RequestRefused, StorageFailed
from apogeemq.model import properties as names
from apogeemq.model.delays import DelayLevels, level_of
from apogeemq.model.flags import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from apogeemq.model.properties import MAX_SIZE, encode_properties
from apogeemq.model.topics import SCHEDULE_TOPIC
from apogeemq.protocol.codes import ResponseCode
from apogeemq.protocol.record import topic_part
from apogeemq.store.message_store import MessageStore
from apogeemq.store.results import NewMessage, Put

log = logging.getLogger(__name__)

PutT = TypeVar("PutT")

_SCHEDULE_PART = topic_part(SCHEDULE_TOPIC.encode())
_MAX_REMEMBERED_TOPICS = 100_000

NO_ROOM_REMARK = "create mapped file failed, server is busy or broken."


class Putter:
    """`why_not_writable` says why nothing can be stored just now, or None."""

    def __init__(
        self,
        store: MessageStore,
        delays: DelayLevels,
        why_not_writable: Callable[[], str | None],
        now_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._delays = delays
        self._why_not_writable = why_not_writable
        self._now_ms = now_ms
        self._topic_parts: dict[str, tuple[int, bytes]] = {}
        self.max_message_size = store.config.max_message_size
        self.failure_count = 0

    def topic_part(self, topic: str) -> tuple[int, bytes]:
        part = self._topic_parts.get(topic)
        if part is None:
            if len(self._topic_parts) >= _MAX_REMEMBERED_TOPICS:
                self._topic_parts.clear()
            part = self._topic_parts[topic] = topic_part(topic.encode())
        return part

    def put(self, message: NewMessage, properties: dict[str, str]) -> Put:
        """`properties` are those of the message, decoded. RequestRefused when it cannot be stored."""
        self.check_sizes(len(message.body), len(message.properties))
        if names.DELAY in properties:
            message = self._delayed(message, properties)
        return self.stored(lambda: self._store.put(message, self._now_ms()))

    def check_sizes(self, body_size: int, properties_size: int) -> None:
        if body_size > self.max_message_size or properties_size > MAX_SIZE:
            self.failure_count += 1
            raise RequestRefused(
                ResponseCode.MESSAGE_ILLEGAL,
                "the message is illegal, maybe msg body or properties length not matched. "
                f"msg body length limit {self.max_message_size}B, msg properties length limit 32KB.",
            )

    def check_writable(self) -> None:
        problem = self._why_not_writable()
        if problem is not None:
            self.failure_count += 1
            raise RequestRefused(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                "service not available now. It may be caused by one of the following reasons: "
                f"the broker's disk is full [{problem}], messages are put to the slave, "
                "message store has been shut down, etc.",
            )

    def stored(self, put: Callable[[], PutT]) -> PutT:
        """What `put` gives; a disk without room becomes Apache's answer to that."""
        self.check_writable()
        try:
            return put()
        except (OSError, StorageFailed) as error:
            self.failure_count += 1
            log.error("a message could not be stored: %s", error)
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, NO_ROOM_REMARK) from None

    def _delayed(self, message: NewMessage, properties: dict[str, str]) -> NewMessage:
        """The message as the schedule topic keeps it until it is due; where it belongs is in its properties."""
        text = properties[names.DELAY]
        if not text.lstrip("-").isdigit():
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"the property {names.DELAY} is {text!r}, not a level")
        level = min(level_of(text), self._delays.max_level)
        if level <= 0 or message.system_flag & TRANSACTION_MASK in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK):
            return message
        kept = {name: value for name, value in properties.items() if name not in names.TIMER_PROPERTIES}
        kept[names.DELAY] = str(level)
        kept[names.REAL_TOPIC] = message.topic
        kept[names.REAL_QUEUE_ID] = str(message.queue_id)
        encoded = encode_properties(kept).encode()
        self.check_sizes(0, len(encoded))
        return msgspec.structs.replace(
            message,
            topic=SCHEDULE_TOPIC,
            topic_part=_SCHEDULE_PART,
            queue_id=level - 1,
            properties=encoded,
            tags_code=self._now_ms() + self._delays.delay_ms(level),
        )
