"""The messages of a batch as records, made field by field without an object for any of them.

Only where much is written: a client has no use for it, and needs no librt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from isal.isal_zlib import crc32
from librt.strings import BytesWriter, write_i32_be, write_i64_be

from apogeemq.protocol.record import CRC_MASK, HEAD_PACKS, HOST_FLAGS, SYSTEM_FLAG_AT

if TYPE_CHECKING:
    from mypy_extensions import i32, i64

_crc32: Final = crc32
# From the system flag up to this, the heads of a batch's records are the same: only the length of the body follows.
_SHARED_END: Final = -4
_UNSIGNED_END: Final = 0x1_0000_0000  # less this, a magic is the signed number of the same 32 bits


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
        head = HEAD_PACKS[system_flag & HOST_FLAGS](
            *(0, 0, 0, 0, 0, 0, 0, system_flag, born_time, born_host, store_time, store_host),
            *(reconsume_times, prepared_offset, 0),
        )
        magic, self._topic = topic
        self._shared: bytes = head[SYSTEM_FLAG_AT:_SHARED_END]
        self._magic: i32 = magic - _UNSIGNED_END
        self._queue_id: i32 = queue_id
        self._writer = BytesWriter()
        self._properties_length: i64 = -1  # of the last message, and what was between its body and its properties
        self._tail = b""

    def add(
        self, size: int, flag: int, queue_offset: i64, physical_offset: i64, body: bytes, properties: bytes
    ) -> None:
        """`size` is `record_size`."""
        length: i64 = len(properties)
        if length != self._properties_length:
            self._properties_length, self._tail = length, self._topic + len(properties).to_bytes(2)
        writer = self._writer
        write_i32_be(writer, size)
        write_i32_be(writer, self._magic)
        write_i32_be(writer, _crc32(body) & CRC_MASK)
        write_i32_be(writer, self._queue_id)
        write_i32_be(writer, flag)
        write_i64_be(writer, queue_offset)
        write_i64_be(writer, physical_offset)
        writer.write(self._shared)
        write_i32_be(writer, len(body))
        writer.write(body)
        writer.write(self._tail)
        writer.write(properties)

    def joined(self) -> bytes:
        return self._writer.getvalue()
