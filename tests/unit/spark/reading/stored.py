"""Records as brokers store them, and the rows that they must become, read in the plainest way."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any, NamedTuple
from zlib import crc32

import pyarrow as pa

from apogeemq.errors import ProtocolError
from apogeemq.model.flags import BORN_HOST_IPV6, COMPRESSED, INNER_BATCH, NEED_UNWRAP, STORE_HOST_IPV6
from apogeemq.model.ids import offset_id
from apogeemq.model.properties import decode_properties, encode_properties
from apogeemq.protocol.batch import decode_batch
from apogeemq.protocol.compression import decompress
from apogeemq.protocol.record import CRC_MASK, Record, decode_record, record_size, topic_part
from apogeemq.protocol.record_writing import encode_record
from apogeemq.spark.source.ranges import OffsetRange

BATCH = INNER_BATCH | NEED_UNWRAP
HOST = bytes((10, 0, 0, 1)) + (50_000).to_bytes(4)
HOST_V6 = bytes(15) + b"\x01" + (50_000).to_bytes(4)


class Stored(NamedTuple):
    body: bytes = b"body"
    properties: bytes = encode_properties({"KEYS": "k1 k2", "TAGS": "TagA", "UNIQ_KEY": "7F01"}).encode()
    topic: bytes = b"T"
    system_flag: int = 0
    born_time: int = 1_700_000_000_000
    store_time: int = 1_700_000_000_001
    reconsume_times: int = 0
    physical_offset: int = 4096

    def at(self, queue_offset: int) -> bytes:
        topic = topic_part(self.topic)
        flags = self.system_flag
        return encode_record(
            record_size(flags, len(topic[1]), len(self.body), len(self.properties)),
            topic,
            3,
            0,
            queue_offset,
            self.physical_offset,
            flags,
            self.born_time,
            HOST_V6 if flags & BORN_HOST_IPV6 else HOST,
            self.store_time,
            HOST_V6 if flags & STORE_HOST_IPV6 else HOST,
            self.reconsume_times,
            0,
            crc32(self.body) & CRC_MASK,
            self.body,
            self.properties,
        )


def stored_from(first: int, messages: Sequence[Stored]) -> bytes:
    """With consecutive offsets."""
    return b"".join(message.at(first + number) for number, message in enumerate(messages))


def span(start: int, end: int, queue_id: int = 3, topic: str = "T", broker: str = "broker-a") -> OffsetRange:
    return OffsetRange(topic, broker, queue_id, start, end)


def rows_of(where: OffsetRange, data: bytes) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    position = 0
    while position < len(data):
        record = decode_record(data, position)
        position += record.size
        rows += (_row(where, one) for one in _messages(record) if where.start <= one.queue_offset < where.end)
    return rows


def _messages(record: Record) -> list[Record]:
    try:
        body = decompress(record.body, record.system_flag)
        record = record._replace(body=body, system_flag=record.system_flag & ~COMPRESSED)
    except ProtocolError:
        pass
    if record.system_flag & BATCH != BATCH:
        return [record]
    try:
        batch = decode_batch(record.body)
    except ProtocolError:
        return [record]
    return [
        record._replace(queue_offset=record.queue_offset + number, body=body, properties=properties)
        for number, (_, body, properties) in enumerate(batch)
    ]


def _row(where: OffsetRange, record: Record) -> dict[str, Any]:
    properties = decode_properties(record.properties.decode(errors="replace"))
    return {
        "topic": where.topic,
        "broker": where.broker,
        "queue_id": where.queue_id,
        "queue_offset": record.queue_offset,
        "msg_id": properties.get("UNIQ_KEY", offset_id(record.store_host, record.physical_offset)),
        "keys": [key for key in properties.get("KEYS", "").split(" ") if key] or None,
        "tags": properties.get("TAGS"),
        "properties": properties,
        "body": record.body,
        "born_timestamp": _microseconds(record.born_time),
        "store_timestamp": _microseconds(record.store_time),
        "born_host": _host(record.born_host),
        "reconsume_times": record.reconsume_times,
        "sys_flag": record.system_flag,
    }


def _host(host: bytes) -> str:
    address, port = str(ip_address(host[:-4])), int.from_bytes(host[-4:], signed=True)
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _microseconds(time_ms: int) -> int | None:
    return time_ms * 1000 if abs(time_ms * 1000) < 2**63 else None


def rows_in(batch: Any) -> list[dict[str, Any]]:
    """What a batch holds, in the same form; its own schema must hold for it."""
    batch.validate(full=True)
    columns: dict[str, list[Any]] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_timestamp(column.type):
            columns[name] = column.cast(pa.int64()).to_pylist()
        elif pa.types.is_map(column.type):
            assert all(len(dict(entries)) == len(entries) for entries in column.to_pylist())
            columns[name] = [dict(entries) for entries in column.to_pylist()]
        else:
            columns[name] = column.to_pylist()
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
