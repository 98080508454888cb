"""The records and queue entries of a batch: one piece of the log, one piece of the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from librt.strings import BytesWriter, write_i32_be, write_i64_be

from apogeemq.protocol.batch import BatchEntries
from apogeemq.protocol.record import CRC_MASK, record_size
from apogeemq.protocol.record_writing import BatchRecords
from apogeemq.runtime.checksums import crc32
from apogeemq.store.message_marks import BatchMarks
from apogeemq.store.results import NewMessage

if TYPE_CHECKING:
    from mypy_extensions import i64


def batch_size(topic: tuple[int, bytes], system_flag: int, batch: BatchEntries) -> int:
    """Of all records together; the topic as records hold it."""
    return record_size(system_flag, len(topic[1]), 0, 0) * batch.count + batch.content_size


class EncodedBatch:
    """Records, one after the other, that begin at an offset of the log, and what is derived from them.

    The topic is as records hold it; `marks` are those of the topic.
    """

    __slots__ = ("entries", "hashed_keys", "offsets", "records")

    def __init__(
        self,
        topic: tuple[int, bytes],
        shared: NewMessage,
        batch: BatchEntries,
        physical_offset: i64,
        queue_offset: i64,
        store_time: int,
        marks: BatchMarks,
    ) -> None:
        rest: i64 = record_size(shared.system_flag, len(topic[1]), 0, 0)
        entries, offsets, hashed_keys = BytesWriter(), BytesWriter(), BytesWriter()
        records = BatchRecords(
            topic,
            shared.queue_id,
            shared.system_flag,
            shared.born_time,
            shared.born_host,
            store_time,
            shared.store_host,
            shared.reconsume_times,
            shared.prepared_offset,
        )
        batch.begin()
        for properties in batch.properties:
            body = batch.next_body()
            size = rest + len(body) + len(properties)
            records.add(size, batch.flag, queue_offset, physical_offset, crc32(body) & CRC_MASK, body, properties)
            tags_code = marks.add(properties, physical_offset, hashed_keys)
            # As `layout.QUEUE_ENTRY` has it.
            write_i64_be(entries, physical_offset)
            write_i32_be(entries, int(size))
            write_i64_be(entries, tags_code)
            write_i64_be(offsets, physical_offset)
            physical_offset += size
            queue_offset += 1
        self.records = records.joined()
        self.entries = entries.getvalue()  # of the consume queue
        self.offsets = offsets.getvalue()  # where each record begins, in eight bytes
        self.hashed_keys = hashed_keys.getvalue()  # of all keys, as `layout.HASHED_KEY` has it
