"""The store as one thing: put, get, look up, find by key and by time.

The commit log holds every message; the consume queues and the key index are derived from it, at once as each message
is put, and again from the log where a crash left them behind (`recovery.py`). One thread puts and reads.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Container, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from apogeemq.errors import StorageFailed
from apogeemq.model.flags import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from apogeemq.model.properties import decode_properties
from apogeemq.protocol.batch import BatchEntries
from apogeemq.protocol.record import CRC_MASK, HEAD_SIZES, HOST_FLAGS, Record
from apogeemq.protocol.record_writing import encode_record
from apogeemq.runtime.checksums import crc32
from apogeemq.store.batch import EncodedBatch, batch_size
from apogeemq.store.collecting import many_messages, next_messages, wanted_messages
from apogeemq.store.commit_log import CommitLog
from apogeemq.store.config import StoreConfig
from apogeemq.store.consume_queue import ConsumeQueue
from apogeemq.store.key_index import KeyIndex
from apogeemq.store.layout import QUEUE_ENTRY
from apogeemq.store.mapped_file import MapCache, most_maps
from apogeemq.store.message_marks import index_keys
from apogeemq.store.results import GetStatus, Got, NewMessage, Put, PutBatch
from apogeemq.store.stored_topic import StoredTopic

log = logging.getLogger(__name__)

_NOT_IN_QUEUE: Final = TRANSACTION_PREPARED & TRANSACTION_ROLLBACK  # the bit that only these two have

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
        self._topics: dict[str, StoredTopic] = {}  # of these queues
        self.last_store_time = 0
        self._gathered_time = 0  # of the first message that is gathered; 0 when there is none
        self.index_failure_count = 0
        self._queue_root = root / "consumequeue"
        self._maps = MapCache(config.max_mapped_queue_files or most_maps())
        self._tags_code_of = tags_code_of
        self._is_indexed = config.message_index_enable
        self.waiting: dict[tuple[str, int], Waiter] = {}
        # Why nothing more can be put: a flush has failed (said by its thread, never taken back), the disk is full.
        self.flush_error: OSError | None = None
        self.disk_problem: str | None = None

    # -- putting ---------------------------------------------------------------------------------------------

    def why_not_writable(self) -> str | None:
        """Whoever puts asks before. Reading goes on in any case."""
        if self.flush_error is not None:
            return f"a flush failed: {self.flush_error.strerror or self.flush_error}"
        return self.disk_problem

    def put(self, message: NewMessage, now_ms: int, *, is_gathered: bool = False) -> Put:
        """Append one message and make it readable. OSError: the disk has no room; nothing was stored.

        One that is gathered can be read at once, but is not written before `settle`.
        """
        return Put(
            *self.append(
                message.topic,
                message.queue_id,
                message.flag,
                message.system_flag,
                message.born_time,
                message.born_host,
                message.store_host,
                message.reconsume_times,
                message.prepared_offset,
                message.body,
                message.properties,
                message.tags_code,
                message.keys,
                now_ms,
                is_gathered=is_gathered,
            )
        )

    def append(
        self,
        topic: str,
        queue_id: int,
        flag: int,
        system_flag: int,
        born_time: int,
        born_host: bytes,
        store_host: bytes,
        reconsume_times: int,
        prepared_offset: int,
        body: bytes,
        properties: bytes,
        tags_code: int,
        keys: Sequence[str],
        now_ms: int,
        *,
        is_gathered: bool = False,
    ) -> tuple[int, int, int, int]:
        """`put` of a message in its parts, so that nothing is made to be taken apart again; gives a `Put` in its."""
        stored = self._topics.get(topic)
        queue = None if stored is None else stored.queues.get(queue_id)
        if stored is None or queue is None:
            queue = self.queue(topic, queue_id)
            stored = self._topics[topic]
        topic_part = stored.part
        is_for_queue = not system_flag & _NOT_IN_QUEUE
        queue_offset = queue.max_offset if is_for_queue else 0
        if is_for_queue and queue_offset >= queue.room:
            queue.make_room()
        size = HEAD_SIZES[system_flag & HOST_FLAGS] + len(body) + len(topic_part[1]) + 2 + len(properties)
        log = self.log
        physical_offset = log.max_offset
        if is_gathered:
            if physical_offset + size > log.reserved_room:
                log.reserve_room(size)
                physical_offset = log.max_offset
        elif physical_offset + size > log.room:
            physical_offset = log.claim(size)
        store_time = self.last_store_time
        if now_ms > store_time:  # never back, whatever the clock does
            store_time = self.last_store_time = now_ms
        record = encode_record(
            size,
            topic_part,
            queue_id,
            flag,
            queue_offset,
            physical_offset,
            system_flag,
            born_time,
            born_host,
            store_time,
            store_host,
            reconsume_times,
            prepared_offset,
            crc32(body) & CRC_MASK,
            body,
            properties,
        )
        if is_gathered:
            if not self._gathered_time:
                self._gathered_time = store_time
            log.gather(record)
        else:
            log.put(record)
        if is_for_queue:
            queue.append(physical_offset, size, tags_code)
        if keys and self._is_indexed:
            try:
                self.index.put(stored.keys, keys, physical_offset, store_time)
            except OSError as error:
                self._is_not_indexed(error)
        if self.waiting and is_for_queue:
            waiter = self.waiting.get((topic, queue_id))
            if waiter is not None:
                waiter(queue_offset, tags_code, store_time, properties)
        return physical_offset, queue_offset, size, store_time

    def settle(self, *, is_for_flush: bool = False) -> None:
        """Write the messages that were gathered; whether a flush is asked for next says how."""
        self.log.settle(is_for_flush=is_for_flush)
        self._gathered_time = 0

    @property
    def last_written_time(self) -> int:
        """Messages that are older than this are written. Another thread may ask: the order of these two counts."""
        latest = self.last_store_time
        return self._gathered_time or latest

    def put_batch(self, shared: NewMessage, batch: BatchEntries, now_ms: int) -> PutBatch:
        """Append the messages of a batch to one queue, all of them or, with OSError, none.

        Flags, bodies and properties, which must be UTF-8, are those of the batch, the rest is `shared`. They lie in one
        log file; StorageFailed when they are too large for one.
        """
        topic, queue_id = shared.topic, shared.queue_id
        queue = self.queue(topic, queue_id)
        count, first_offset = batch.count, queue.max_offset
        if first_offset + count > queue.room:
            queue.make_room(count)
        stored = self._topics[topic]
        total_size = batch_size(stored.part, shared.system_flag, batch)
        physical_offset = self.log.claim(total_size)
        store_time = self.last_store_time = max(now_ms, self.last_store_time)
        encoded = EncodedBatch(stored.part, shared, batch, physical_offset, first_offset, store_time, stored.marks)
        self.log.put(encoded.records)
        queue.append_many(encoded.entries, physical_offset + total_size)
        if self._is_indexed:
            try:
                self.index.put_many(encoded.hashed_keys, store_time)
            except OSError as error:
                self._is_not_indexed(error)
        if self.waiting:
            self._tell_of_batch(topic, queue_id, batch.properties, encoded.entries, first_offset, store_time)
        return PutBatch(physical_offset, encoded.offsets, first_offset, total_size, store_time)

    def _tell_of_batch(
        self,
        topic: str,
        queue_id: int,
        properties_of_each: Sequence[bytes],
        entries: bytes,
        queue_offset: int,
        store_time: int,
    ) -> None:
        for properties, (_, _, tags_code) in zip(properties_of_each, QUEUE_ENTRY.iter_unpack(entries), strict=True):
            waiter = self.waiting.get((topic, queue_id))
            if waiter is None:
                return
            waiter(queue_offset, tags_code, store_time, properties)
            queue_offset += 1

    def _is_not_indexed(self, error: OSError) -> None:
        """The message is stored and can be read; it cannot be found by key."""
        self.index_failure_count += 1
        if self.index_failure_count.bit_count() == 1:  # said ever more rarely: it comes with every message
            log.error("%d messages are not in the key index: %s", self.index_failure_count, error)

    def dispatch(self, record: Record) -> None:
        """Bring queue and index up to a record of the log; what they have already stays as it is."""
        topic = record.topic.decode(errors="replace")
        properties = decode_properties(record.properties.decode(errors="replace"))
        self.last_store_time = max(self.last_store_time, record.store_time)
        if not record.system_flag & _NOT_IN_QUEUE:
            queue = self.queue(topic, record.queue_id)
            if record.physical_offset >= queue.end_physical:
                tags_code = self._tags_code_of(topic, properties, record.store_time)
                queue.append_at(record.queue_offset, record.physical_offset, record.size, tags_code)
        is_rollback = record.system_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK
        if self._is_indexed and not is_rollback and record.physical_offset > self.index.end_offset:
            keys = self._stored(topic).keys
            self.index.put(keys, index_keys(properties), record.physical_offset, record.store_time)

    # -- queues ----------------------------------------------------------------------------------------------

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, made if it is not there."""
        key = (topic, queue_id)
        found = self.queues.get(key)
        if found is None:
            size = self.config.mapped_file_size_consume_queue
            found = self.queues[key] = ConsumeQueue(self._queue_root, topic, queue_id, size, self._maps)
            self._stored(topic).queues[queue_id] = found
        return found

    def _stored(self, topic: str) -> StoredTopic:
        stored = self._topics.get(topic)
        if stored is None:
            stored = self._topics[topic] = StoredTopic(topic)
        return stored

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
                    self._forget(queue)
                    is_whole = False
        return is_whole

    def delete_topic(self, topic: str) -> None:
        """Its queues; the messages stay in the log until they expire."""
        if (stored := self._topics.get(topic)) is not None:
            for queue_id in list(stored.queues):
                self.delete_queue(topic, queue_id)

    def delete_queue(self, topic: str, queue_id: int) -> None:
        queue = self.queues[topic, queue_id]
        self._forget(queue)
        queue.delete()

    def _forget(self, queue: ConsumeQueue) -> None:
        del self.queues[queue.topic, queue.queue_id]
        queues = self._topics[queue.topic].queues
        del queues[queue.queue_id]
        if not queues:
            del self._topics[queue.topic]

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
        if wanted_tags is None:
            got = next_messages(self.log, queue, offset, max_messages, max_bytes)
            if got is None:
                got = many_messages(self.log, queue, offset, max_messages, max_bytes)
            if got is not None:
                return got
        return wanted_messages(self.log, queue, offset, max_messages, max_bytes, wanted_tags)

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
