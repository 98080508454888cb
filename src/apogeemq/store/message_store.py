"""The store as one thing: put, get, look up, find by key and by time.

The commit log holds every message; the consume queues and the key index are derived from it, at once as each message
is put, and again from the log where a crash left them behind (`recovery.py`). One thread puts and reads.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Container, Sequence
from itertools import accumulate, count
from pathlib import Path
from typing import TypeAlias

from apogeemq.errors import StorageFailed
from apogeemq.model import properties as names
from apogeemq.model.flags import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from apogeemq.model.properties import decode_properties
from apogeemq.protocol.record import Record, encode_record, record_size
from apogeemq.store.commit_log import CommitLog
from apogeemq.store.config import StoreConfig
from apogeemq.store.consume_queue import ConsumeQueue
from apogeemq.store.key_index import KeyIndex
from apogeemq.store.layout import QUEUE_ENTRY
from apogeemq.store.mapped_file import MapCache
from apogeemq.store.results import BatchPart, GetStatus, Got, NewMessage, Put, PutBatch

log = logging.getLogger(__name__)

_NOT_IN_QUEUES = (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)

# (topic, properties, store time) -> the tags code of a message's queue entry
TagsCodeOf: TypeAlias = Callable[[str, dict[str, str], int], int]

# told of an arrival: (queue offset, tags code, store time, properties)
Waiter: TypeAlias = Callable[[int, int, int, bytes], None]


class MessageStore:
    """Made, recovered and closed by the broker.

    `waiting` holds a callback for each queue that somebody waits at; it is told of every message put there, as soon as
    that can be read, and may remove itself.
    """

    def __init__(self, config: StoreConfig, tags_code_of: TagsCodeOf) -> None:
        root = Path(config.store_path_root_dir)
        self.config = config
        self.root = root
        self.log = CommitLog(
            Path(config.store_path_commit_log or root / "commitlog"), config.mapped_file_size_commit_log
        )
        self.index = KeyIndex(root / "index", config.max_hash_slot_num, config.max_index_num)
        self.queues: dict[tuple[str, int], ConsumeQueue] = {}
        self.last_store_time = 0
        self.index_failure_count = 0
        self._queue_root = root / "consumequeue"
        self._maps = MapCache(config.max_mapped_queue_files)
        self._tags_code_of = tags_code_of
        self.waiting: dict[tuple[str, int], Waiter] = {}

    # -- putting ---------------------------------------------------------------------------------------------

    def put(self, message: NewMessage, now_ms: int) -> Put:
        """Append one message and make it readable. OSError: the disk has no room; nothing was stored."""
        topic, queue_id, body, properties = message.topic, message.queue_id, message.body, message.properties
        queue = self.queues.get((topic, queue_id)) or self.queue(topic, queue_id)
        size = record_size(message.system_flag, len(message.topic_part[1]), len(body), len(properties))
        queue.make_room(queue.max_offset)
        physical_offset = self.log.claim(size)
        store_time = self.last_store_time = max(now_ms, self.last_store_time)  # never back, whatever the clock does
        queue_offset = queue.max_offset
        self.log.put(
            encode_record(
                message.topic_part,
                queue_id,
                message.flag,
                queue_offset,
                physical_offset,
                message.system_flag,
                message.born_time,
                message.born_host,
                store_time,
                message.store_host,
                message.reconsume_times,
                message.prepared_offset,
                body,
                properties,
            )
        )
        if message.system_flag & TRANSACTION_MASK not in _NOT_IN_QUEUES:
            queue.append(queue_offset, physical_offset, size, message.tags_code)
        if message.keys:
            self._index(topic, message.keys, physical_offset, store_time)
        if (
            self.waiting
            and (waiter := self.waiting.get((topic, queue_id))) is not None
            and queue.max_offset > queue_offset
        ):
            waiter(queue_offset, message.tags_code, store_time, properties)
        return Put(physical_offset, queue_offset, size, store_time)

    def put_batch(self, shared: NewMessage, parts: Sequence[BatchPart], now_ms: int) -> PutBatch:
        """Append the messages of a batch to one queue, all of them or, with OSError, none.

        Body, properties, flag, tags code and keys are those of the parts, the rest is `shared`. They lie in one log
        file; StorageFailed when they are too large for one.
        """
        topic, queue_id, system_flag = shared.topic, shared.queue_id, shared.system_flag
        queue = self.queues.get((topic, queue_id)) or self.queue(topic, queue_id)
        topic_length = len(shared.topic_part[1])
        sizes = [record_size(system_flag, topic_length, len(part.body), len(part.properties)) for part in parts]
        total_size = sum(sizes)
        first_offset = queue.max_offset
        queue.make_room(first_offset, len(parts))
        physical_offset = self.log.claim(total_size)
        store_time = self.last_store_time = max(now_ms, self.last_store_time)
        offsets = list(accumulate(sizes[:-1], initial=physical_offset))
        self.log.put(
            b"".join(
                encode_record(
                    shared.topic_part,
                    queue_id,
                    part.flag,
                    queue_offset,
                    offset,
                    system_flag,
                    shared.born_time,
                    shared.born_host,
                    store_time,
                    shared.store_host,
                    shared.reconsume_times,
                    shared.prepared_offset,
                    part.body,
                    part.properties,
                )
                for queue_offset, offset, part in zip(count(first_offset), offsets, parts, strict=False)
            )
        )
        for offset, size, part in zip(offsets, sizes, parts, strict=True):
            queue.append(queue.max_offset, offset, size, part.tags_code)
        for offset, part in zip(offsets, parts, strict=True):
            self._index(topic, part.keys, offset, store_time)
        if self.waiting:
            for queue_offset, part in enumerate(parts, first_offset):
                waiter = self.waiting.get((topic, queue_id))
                if waiter is None:
                    break
                waiter(queue_offset, part.tags_code, store_time, part.properties)
        return PutBatch(offsets, first_offset, total_size, store_time)

    def _index(self, topic: str, keys: Sequence[str], physical_offset: int, store_time: int) -> None:
        if not self.config.message_index_enable:
            return
        try:
            self.index.put(topic, keys, physical_offset, store_time)
        except OSError as error:  # the message is stored and can be read; it cannot be found by key
            self.index_failure_count += 1
            log.error("the message at %d is not in the key index: %s", physical_offset, error)

    def dispatch(self, record: Record) -> None:
        """Bring queue and index up to a record of the log; what they have already stays as it is."""
        topic = record.topic.decode(errors="replace")
        properties = decode_properties(record.properties.decode(errors="replace"))
        self.last_store_time = max(self.last_store_time, record.store_time)
        kind = record.system_flag & TRANSACTION_MASK
        if kind not in _NOT_IN_QUEUES:
            queue = self.queue(topic, record.queue_id)
            if record.physical_offset >= queue.end_physical:
                tags_code = self._tags_code_of(topic, properties, record.store_time)
                queue.append(record.queue_offset, record.physical_offset, record.size, tags_code)
        if kind != TRANSACTION_ROLLBACK and self.config.message_index_enable:
            self.index.put(topic, index_keys(properties), record.physical_offset, record.store_time)

    # -- queues ----------------------------------------------------------------------------------------------

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, made if it is not there."""
        key = (topic, queue_id)
        found = self.queues.get(key)
        if found is None:
            size = self.config.mapped_file_size_consume_queue
            found = self.queues[key] = ConsumeQueue(self._queue_root, topic, queue_id, size, self._maps)
        return found

    def load_queues(self) -> bool:
        """Every queue there is a folder of; False when one had to be given up and must be built again."""
        is_whole = True
        for folder in sorted(self._queue_root.glob("*/*")):
            if folder.name.isdigit():
                queue = self.queue(folder.parent.name, int(folder.name))
                try:
                    queue.load()
                except StorageFailed as error:
                    log.error("a consume queue is built again from the log: %s", error)
                    shutil.rmtree(folder)
                    del self.queues[queue.topic, queue.queue_id]
                    is_whole = False
        return is_whole

    def delete_topic(self, topic: str) -> None:
        """Its queues; the messages stay in the log until they expire."""
        for key in [key for key in self.queues if key[0] == topic]:
            self.queues.pop(key).delete()

    # -- getting ---------------------------------------------------------------------------------------------

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_messages: int,
        max_bytes: int,
        wanted_tags: Container[int] | None = None,
    ) -> Got:
        """Messages of a queue from an offset on; `wanted_tags` are tag hashes, None takes all."""
        queue = self.queues.get((topic, queue_id))
        if queue is None:
            return Got(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
        low, high = queue.min_offset, queue.max_offset
        if high == low:
            return Got(GetStatus.NO_MESSAGE_IN_QUEUE, 0, low, high)
        if offset < low:
            return Got(GetStatus.OFFSET_TOO_SMALL, low, low, high)
        if offset == high:
            return Got(GetStatus.OFFSET_OVERFLOW_ONE, offset, low, high)
        if offset > high:
            return Got(GetStatus.OFFSET_OVERFLOW_BADLY, high, low, high)
        return self._collect(queue, offset, max_messages, max_bytes, wanted_tags)

    def _collect(
        self, queue: ConsumeQueue, offset: int, max_messages: int, max_bytes: int, wanted_tags: Container[int] | None
    ) -> Got:
        entries = queue.entries(offset, max(800, max_messages))
        if not entries:
            return Got(GetStatus.OFFSET_FOUND_NULL, queue.next_file_offset(offset), queue.min_offset, queue.max_offset)
        records: list[bytes] = []
        size_so_far, next_offset, status = 0, offset, GetStatus.NO_MATCHED_MESSAGE
        read = self.log.read
        for physical_offset, size, tags_code in QUEUE_ENTRY.iter_unpack(entries):
            if len(records) >= max_messages or (records and size_so_far + size > max_bytes):
                break
            next_offset += 1
            if wanted_tags is not None and tags_code not in wanted_tags:
                continue
            record = read(physical_offset, size)
            if not record:  # expired from the log, not yet from the queue
                if not records:
                    status = GetStatus.MESSAGE_WAS_REMOVING
                continue
            records.append(record)
            size_so_far += size
        if records:
            status = GetStatus.FOUND
        return Got(status, next_offset, queue.min_offset, queue.max_offset, b"".join(records), len(records))

    def find_by_key(self, topic: str, key: str, begin: int, end: int, most: int) -> list[Record]:
        """Messages that may carry the key (their hashes are equal), newest first."""
        offsets = self.index.find(topic, key, begin, end, most)
        return [record for offset in offsets if (record := self.log.record_at(offset)) is not None]

    @property
    def mapped_queue_file_count(self) -> int:
        return len(self._maps)

    def close(self) -> None:
        self.log.close()
        self.index.close()
        for queue in self.queues.values():
            queue.close()


def index_keys(properties: dict[str, str]) -> list[str]:
    """What a message is indexed by: its unique key, then each of its keys."""
    unique = properties.get(names.UNIQUE_KEY)
    keys = [key for key in properties.get(names.KEYS, "").split(names.KEY_SEPARATOR) if key]
    return [unique, *keys] if unique else keys
