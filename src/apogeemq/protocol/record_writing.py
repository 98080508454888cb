"""Messages made into records, field by field and without an object for any field where this is compiled.

Only for those who store messages: a client, or an executor of Spark's, needs no librt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter, write_i32_be, write_i64_be

if TYPE_CHECKING:
    from mypy_extensions import i32, i64

_UNSIGNED_END: Final = 0x1_0000_0000  # less this, a magic is the signed number of the same 32 bits


def encode_record(
    size: int,
    topic: tuple[int, bytes],
    queue_id: int,
    flag: int,
    queue_offset: i64,
    physical_offset: i64,
    system_flag: int,
    born_time: i64,
    born_host: bytes,
    store_time: i64,
    store_host: bytes,
    reconsume_times: int,
    prepared_offset: i64,
    body_crc: int,
    body: bytes,
    properties: bytes,
) -> bytes:
    """`size` is `record_size`, `topic` is what `topic_part` gave. Whoever took the message in has checked lengths.

    The CRC is without its sign bit.
    """
    magic, topic_bytes = topic
    writer = BytesWriter()
    write_i32_be(writer, size)
    write_i32_be(writer, magic - _UNSIGNED_END)
    write_i32_be(writer, body_crc)
    write_i32_be(writer, queue_id)
    write_i32_be(writer, flag)
    write_i64_be(writer, queue_offset)
    write_i64_be(writer, physical_offset)
    _write_shared(writer, system_flag, born_time, born_host, store_time, store_host, reconsume_times, prepared_offset)
    write_i32_be(writer, len(body))
    writer.write(body)
    writer.write(topic_bytes)
    writer.write(len(properties).to_bytes(2))
    writer.write(properties)
    return writer.getvalue()


def _write_shared(
    writer: BytesWriter,
    system_flag: int,
    born_time: i64,
    born_host: bytes,
    store_time: i64,
    store_host: bytes,
    reconsume_times: int,
    prepared_offset: i64,
) -> None:
    """The part that is the same in all records of a batch: from the system flag to the prepared offset."""
    write_i32_be(writer, system_flag)
    write_i64_be(writer, born_time)
    writer.write(born_host)
    write_i64_be(writer, store_time)
    writer.write(store_host)
    write_i32_be(writer, reconsume_times)
    write_i64_be(writer, prepared_offset)


class BatchRecords:
    """Records that follow each other, of messages that have all but flag, body and properties in common."""

    __slots__ = ("_magic", "_properties_length", "_queue_id", "_shared", "_tail", "_topic", "_writer")

    def __init__(
        self,
        topic: tuple[int, bytes],
        queue_id: int,
        system_flag: int,
        born_time: int,
        born_host: bytes,
        store_time: int,
        store_host: bytes,
        reconsume_times: int,
        prepared_offset: int,
    ) -> None:
        shared = BytesWriter()
        _write_shared(
            shared, system_flag, born_time, born_host, store_time, store_host, reconsume_times, prepared_offset
        )
        magic, self._topic = topic
        self._shared = shared.getvalue()
        self._magic: i32 = magic - _UNSIGNED_END
        self._queue_id: i32 = queue_id
        self._writer = BytesWriter()
        self._properties_length: i64 = -1  # of the last message, and what was between its body and its properties
        self._tail = b""

    def add(
        self,
        size: i64,
        flag: i64,
        queue_offset: i64,
        physical_offset: i64,
        body_crc: int,
        body: bytes,
        properties: bytes,
    ) -> None:
        """`size` is `record_size`, the CRC is without its sign bit."""
        length: i64 = len(properties)
        if length != self._properties_length:
            self._properties_length, self._tail = length, self._topic + len(properties).to_bytes(2)
        writer = self._writer
        write_i32_be(writer, int(size))
        write_i32_be(writer, self._magic)
        write_i32_be(writer, body_crc)
        write_i32_be(writer, self._queue_id)
        write_i32_be(writer, int(flag))
        write_i64_be(writer, queue_offset)
        write_i64_be(writer, physical_offset)
        writer.write(self._shared)
        write_i32_be(writer, len(body))
        writer.write(body)
        writer.write(self._tail)
        writer.write(properties)

    def joined(self) -> bytes:
        return self._writer.getvalue()
