"""The one way a message enters the store: limits, delay levels, and what a store that cannot answers."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from apogeemq.errors import RequestRefused, StorageFailed
from apogeemq.model import properties as names
from apogeemq.model.delays import DelayLevels, level_of
from apogeemq.model.flags import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from apogeemq.model.properties import MAX_SIZE, decode_properties, encode_properties
from apogeemq.model.topics import SCHEDULE_TOPIC
from apogeemq.protocol.batch import BatchEntries
from apogeemq.protocol.codes import ResponseCode
from apogeemq.store.layout import could_be_unwritten
from apogeemq.store.message_store import MessageStore
from apogeemq.store.results import NewMessage, Put, PutBatch

log = logging.getLogger(__name__)

_LEVEL: Final = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)

_COMPLAINTS_APART_MS: Final = 10_000

NO_ROOM_REMARK: Final = "create mapped file failed, server is busy or broken."


class Putter:
    def __init__(
        self,
        store: MessageStore,
        delays: DelayLevels,
        now_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._delays = delays
        self._now_ms = now_ms
        self.max_message_size = store.config.max_message_size
        self.failure_count = 0
        self._next_complaint_ms = 0

    def put(self, message: NewMessage, properties: dict[str, str]) -> Put:
        """`properties` are those of the message, decoded. RequestRefused when it cannot be stored."""
        if len(message.body) > self.max_message_size or len(message.properties) > MAX_SIZE:
            raise self._too_large()
        if 0 in message.properties:
            self.check_zeros(message.properties)
        now_ms = self._now_ms()
        if names.DELAY in properties:
            message = self._delayed(message, properties[names.DELAY], now_ms)
        return self._put_at(message, now_ms)

    def put_as_it_is(self, message: NewMessage) -> Put:
        """Sizes are known to be right, and a delay has been waited for."""
        return self._put_at(message, self._now_ms())

    def _put_at(self, message: NewMessage, now_ms: int) -> Put:
        self.check_writable()
        try:
            return self._store.put(message, now_ms)
        except (OSError, StorageFailed) as error:
            raise self._no_room(error) from None

    def put_usual(
        self,
        topic: str,
        queue_id: int,
        flag: int,
        system_flag: int,
        born_time: int,
        born_host: bytes,
        store_host: bytes,
        reconsume_times: int,
        body: bytes,
        properties: bytes,
        tags_code: int,
        keys: Sequence[str],
        *,
        is_gathered: bool,
    ) -> tuple[int, int, int, int]:
        """What `put` does, for a message that is not delayed; gives the fields of a `Put`."""
        if len(body) > self.max_message_size or len(properties) > MAX_SIZE:
            raise self._too_large()
        if 0 in properties:  # looked for as a number: `in` tries any bytes as one first, and that costs an exception
            self.check_zeros(properties)
        if self._store.why_not_writable() is not None:
            self.check_writable()
        try:
            return self._store.append(
                topic,
                queue_id,
                flag,
                system_flag,
                born_time,
                born_host,
                store_host,
                reconsume_times,
                0,
                body,
                properties,
                tags_code,
                keys,
                self._now_ms(),
                is_gathered=is_gathered,
            )
        except (OSError, StorageFailed) as error:
            raise self._no_room(error) from None

    def put_batch(self, shared: NewMessage, batch: BatchEntries) -> PutBatch:
        """The messages of a batch, whose sizes have been checked; all or none."""
        self.check_writable()
        try:
            return self._store.put_batch(shared, batch, self._now_ms())
        except (OSError, StorageFailed) as error:
            raise self._no_room(error) from None

    def check_sizes(self, body_size: int, properties_size: int) -> None:
        if body_size > self.max_message_size or properties_size > MAX_SIZE:
            raise self._too_large()

    def check_zeros(self, properties: bytes) -> None:
        """After a crash such a message, and all after it, would be taken for one that was never written whole."""
        if could_be_unwritten(properties):
            self.failure_count += 1
            raise RequestRefused(
                ResponseCode.MESSAGE_ILLEGAL, "the message is illegal, its properties hold a row of zero bytes"
            )

    def _too_large(self) -> RequestRefused:
        self.failure_count += 1
        return RequestRefused(
            ResponseCode.MESSAGE_ILLEGAL,
            "the message is illegal, maybe msg body or properties length not matched. "
            f"msg body length limit {self.max_message_size}B, msg properties length limit 32KB.",
        )

    def check_writable(self) -> None:
        problem = self._store.why_not_writable()
        if problem is not None:
            self.failure_count += 1
            raise RequestRefused(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                "service not available now. It may be caused by one of the following reasons: "
                f"the broker's disk is full [{problem}], messages are put to the slave, "
                "message store has been shut down, etc.",
            )

    def _no_room(self, error: Exception) -> RequestRefused:
        self.failure_count += 1
        now_ms = self._now_ms()
        if now_ms >= self._next_complaint_ms:  # a full disk refuses thousands a second; the log is on a disk, too
            self._next_complaint_ms = now_ms + _COMPLAINTS_APART_MS
            log.error("a message could not be stored: %s; %d were refused so far", error, self.failure_count)
        return RequestRefused(ResponseCode.SYSTEM_ERROR, NO_ROOM_REMARK)

    def _delayed(self, message: NewMessage, text: str, now_ms: int) -> NewMessage:
        """The message as the schedule topic keeps it until it is due; where it belongs is in its properties."""
        if _LEVEL.fullmatch(text) is None:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"the property {names.DELAY} is {text[:100]!r}, not a level"
            )
        level = min(level_of(text), self._delays.max_level)
        if level <= 0 or message.system_flag & TRANSACTION_MASK in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK):
            return message
        properties = decode_properties(message.properties.decode())
        kept = {name: value for name, value in properties.items() if name not in names.TIMER_PROPERTIES}
        kept[names.DELAY] = str(level)
        kept[names.REAL_TOPIC] = message.topic
        kept[names.REAL_QUEUE_ID] = str(message.queue_id)
        encoded = encode_properties(kept).encode()
        self.check_sizes(0, len(encoded))
        return msgspec.structs.replace(
            message,
            topic=SCHEDULE_TOPIC,
            queue_id=level - 1,
            properties=encoded,
            tags_code=now_ms + self._delays.delay_ms(level),
        )
