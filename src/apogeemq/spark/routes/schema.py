"""Columns of a journal: who keeps it, then what a line says (docs/formats/route-journal.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from apogeemq.protocol.bodies.journal import JournalLine

_MICROSECONDS: Final = 1000  # in a millisecond

# (column, the line's field, Spark's type, Arrow's type)
_LINE_COLUMNS: Final[tuple[tuple[str, str, DataType, pa.DataType], ...]] = (
    ("sequence", "seq", LongType(), pa.int64()),
    ("time", "time", TimestampType(), pa.timestamp("us", tz="UTC")),
    ("kind", "kind", StringType(), pa.string()),
    ("cause", "cause", StringType(), pa.string()),
    ("cluster", "cluster", StringType(), pa.string()),
    ("broker", "broker", StringType(), pa.string()),
    ("broker_id", "broker_id", LongType(), pa.int64()),
    ("address", "address", StringType(), pa.string()),
    ("topic", "topic", StringType(), pa.string()),
    ("read_queues", "read_queues", IntegerType(), pa.int32()),
    ("write_queues", "write_queues", IntegerType(), pa.int32()),
    ("perm", "perm", IntegerType(), pa.int32()),
    ("sys_flag", "sys_flag", IntegerType(), pa.int32()),
    ("topic_count", "topic_count", IntegerType(), pa.int32()),
)

NAME_SERVER: Final = "name_server"
SPARK_SCHEMA: Final = StructType(
    [
        StructField(NAME_SERVER, StringType()),
        *(StructField(column, spark_type) for column, _, spark_type, _ in _LINE_COLUMNS),
    ]
)
ARROW_SCHEMA: Final = pa.schema(
    [(NAME_SERVER, pa.string()), *((column, arrow_type) for column, _, _, arrow_type in _LINE_COLUMNS)]
)


def to_batch(name_server: str, lines: Sequence[JournalLine]) -> pa.RecordBatch:
    columns: list[list[object]] = [[name_server] * len(lines)]
    for column, field, _, _ in _LINE_COLUMNS:
        values = [getattr(line, field) for line in lines]
        columns.append([time * _MICROSECONDS for time in values] if column == "time" else values)
    return pa.RecordBatch.from_arrays(
        [pa.array(values, type=kind.type) for values, kind in zip(columns, ARROW_SCHEMA, strict=True)],
        schema=ARROW_SCHEMA,
    )
