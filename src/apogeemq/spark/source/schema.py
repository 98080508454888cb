"""The columns of a message, as Spark and as Arrow know them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from apogeemq.errors import ConfigError
from apogeemq.spark.source.columns import ALL_COLUMNS

# All of them may be null as far as Spark knows, so that a schema somebody writes down is equal to ours.
_TYPES: Final[dict[str, DataType]] = {
    "topic": StringType(),
    "broker": StringType(),
    "queue_id": IntegerType(),
    "queue_offset": LongType(),
    "msg_id": StringType(),
    "keys": ArrayType(StringType()),
    "tags": StringType(),
    "properties": MapType(StringType(), StringType()),
    "body": BinaryType(),
    "born_timestamp": TimestampType(),
    "store_timestamp": TimestampType(),
    "born_host": StringType(),
    "reconsume_times": IntegerType(),
    "sys_flag": IntegerType(),
}
assert tuple(_TYPES) == ALL_COLUMNS


def spark_schema(columns: Sequence[str] = ALL_COLUMNS) -> StructType:
    return StructType([StructField(name, _TYPES[name]) for name in columns])


def arrow_schema(columns: Sequence[str] = ALL_COLUMNS) -> pa.Schema:
    """As Spark expects the batches of these columns."""
    return to_arrow_schema(spark_schema(columns), timezone="UTC")


def columns_of(schema: StructType) -> tuple[str, ...]:
    """The columns a schema names, which somebody may have written down. ConfigError for those there are not."""
    for field in schema.fields:
        known = _TYPES.get(field.name)
        if known is None:
            raise ConfigError(f"no column {field.name}: expected some of {', '.join(ALL_COLUMNS)}")
        if known != field.dataType:
            raise ConfigError(
                f"column {field.name} is of type {known.simpleString()}, not {field.dataType.simpleString()}; "
                "leave the schema out, or cast it"
            )
    return tuple(field.name for field in schema.fields)
