"""The records and queue entries of a batch: one piece of the log, one piece of the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from librt.strings import BytesWriter, write_i32_be, write_i64_be

from apogeemq.protocol.record import record_size
from apogeemq.protocol.record_writing import BatchRecords
from apogeemq.store.message_marks import BatchMarks
from apogeemq.store.results import BatchPart, NewMessage

if TYPE_CHECKING:
    from mypy_extensions import i64


def batch_size(topic: tuple[int, bytes], system_flag: int, parts: list[BatchPart]) -> int:
    """Of all records together; the topic as records hold it."""
    total = record_size(system_flag, len(topic[1]), 0, 0) * len(parts)
    for _, body, properties in parts:
        total += len(body) + len(properties)
    return total


class EncodedBatch:
    """Records, one after the other, that begin at an offset of the log, and what is derived from them.

    The topic is as records hold it; `marks` are those of the topic.
    """

    __slots__ = ("entries", "hashed_offsets", "key_hashes", "offsets", "records")

    def __init__(
        self,
        topic: tuple[int, bytes],
        shared: NewMessage,
        parts: list[BatchPart],
        physical_offset: i64,
        queue_offset: i64,
        store_time: int,
        marks: BatchMarks,
    ) -> None:
        self.key_hashes: list[int] = []  # of all keys, and for each of them where its message is
        self.hashed_offsets: list[int] = []
        rest: i64 = record_size(shared.system_flag, len(topic[1]), 0, 0)
        entries, offsets = BytesWriter(), BytesWriter()
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
        for flag, body, properties in parts:
            size = rest + len(body) + len(properties)
            records.add(int(size), flag, queue_offset, physical_offset, body, properties)
            tags_code = marks.add(properties, physical_offset, self.key_hashes, self.hashed_offsets)
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
