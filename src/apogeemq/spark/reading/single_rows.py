"""Records one by one, into lists: for few of them, and for those that are not of the usual layout.

A compressed body is unpacked, and the system flag says so no longer; one that is not what its flag says is given as it
is, with the flag, and stops nobody. A record that holds a batch becomes the rows of its messages. Each is read when it
is asked for. Pure.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from ipaddress import ip_address
from typing import Any, Final, NamedTuple

import pyarrow as pa

from apogeemq.errors import ProtocolError
from apogeemq.model import properties as names
from apogeemq.model.flags import COMPRESSED, INNER_BATCH, NEED_UNWRAP
from apogeemq.model.ids import offset_id
from apogeemq.model.properties import KEY_SEPARATOR, decode_properties
from apogeemq.protocol.batch import decode_batch
from apogeemq.protocol.compression import decompress
from apogeemq.protocol.record import Record, decode_record
from apogeemq.spark.reading.carried_properties import has_all_properties, is_carried
from apogeemq.spark.source.ranges import OffsetRange
from apogeemq.transport.addresses import format_address

_BATCH: Final = INNER_BATCH | NEED_UNWRAP
_PORT_SIZE: Final = 4
_OBJECTS_SIZE: Final = 1024  # of a row's own objects, about

# What only this module reads.
UNUSUAL_FLAGS: Final = COMPRESSED | _BATCH
# A time that does not fit into Arrow's microseconds has no value.
MAX_TIME_MS: Final = (2**63 - 1) // 1000


class Row:
    """One message of a record. `number` is that of the record among those it came with."""

    def __init__(self, number: int, span: OffsetRange, record: Record) -> None:
        self.number = number
        self.span = span
        self.record = record

    @property
    def size(self) -> int:
        """In memory, about."""
        return len(self.record.body) + len(self.record.properties) + _OBJECTS_SIZE

    @cached_property
    def properties(self) -> dict[str, str]:
        return decode_properties(self.record.properties.decode(errors="replace"))

    @property
    def tags(self) -> str | None:
        return self.properties.get(names.TAGS)

    @property
    def keys(self) -> list[str] | None:
        return [key for key in self.properties.get(names.KEYS, "").split(KEY_SEPARATOR) if key] or None

    @property
    def message_id(self) -> str:
        record = self.record
        return self.properties.get(names.UNIQUE_KEY) or offset_id(record.store_host, record.physical_offset)


class RecordPlace(NamedTuple):
    number: int
    span: OffsetRange
    position: int


def single_rows(data: bytes, places: Iterable[RecordPlace]) -> Iterator[Row]:
    """The messages of these records that are within their span. ProtocolError for anything but whole records."""
    for number, span, position in places:
        record = _unpacked(decode_record(data, position))
        for one in _messages(record):
            if span.start <= one.queue_offset < span.end:
                yield Row(number, span, one)


def _unpacked(record: Record) -> Record:
    if record.system_flag & COMPRESSED:
        with contextlib.suppress(ProtocolError):
            body = decompress(record.body, record.system_flag)
            return record._replace(body=body, system_flag=record.system_flag & ~COMPRESSED)
    return record


def _messages(record: Record) -> Sequence[Record]:
    """Those of a batch that its broker keeps as one record; the record itself, when it is none."""
    if record.system_flag & _BATCH != _BATCH:
        return (record,)
    try:
        inner = decode_batch(record.body)
    except ProtocolError:
        return (record,)
    return [
        record._replace(queue_offset=record.queue_offset + number, flag=flag, body=body, properties=properties)
        for number, (flag, body, properties) in enumerate(inner)
    ]


def host_text(host: bytes) -> str:
    """Address and port, from the bytes of a record."""
    address, port = host[:-_PORT_SIZE], host[-_PORT_SIZE:]
    return format_address(str(ip_address(address)), int.from_bytes(port, signed=True))


def _microseconds(time_ms: int) -> int | None:
    return time_ms * 1000 if -MAX_TIME_MS <= time_ms <= MAX_TIME_MS else None


_VALUES: Final[dict[str, Callable[[Row], Any]]] = {
    "topic": lambda row: row.span.topic,
    "broker": lambda row: row.span.broker,
    "queue_id": lambda row: row.span.queue_id,
    "queue_offset": lambda row: row.record.queue_offset,
    "msg_id": lambda row: row.message_id,
    "keys": lambda row: row.keys,
    "tags": lambda row: row.tags,
    "properties": lambda row: [entry for entry in row.properties.items() if is_carried(*entry)],
    "body": lambda row: row.record.body,
    "born_timestamp": lambda row: _microseconds(row.record.born_time),
    "store_timestamp": lambda row: _microseconds(row.record.store_time),
    "born_host": lambda row: host_text(row.record.born_host),
    "reconsume_times": lambda row: row.record.reconsume_times,
    "sys_flag": lambda row: row.record.system_flag,
}


def batch_of_rows(rows: Sequence[Row], schema: Any) -> Any:
    values = _VALUES
    if has_all_properties(schema):
        values = {**_VALUES, "properties": lambda row: list(row.properties.items())}
    columns = [pa.array([values[field.name](row) for row in rows], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
