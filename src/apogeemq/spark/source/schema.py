"""The columns of a message, as Spark and as Arrow know them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
from apogeemq.spark.reading.carried_properties import with_all_properties
from apogeemq.spark.source.columns import ALL_COLUMNS

# Spark takes a fifth less time for a row where it knows that there is no null.
_TYPES: Final[dict[str, DataType]] = {
    "topic": StringType(),
    "broker": StringType(),
    "queue_id": IntegerType(),
    "queue_offset": LongType(),
    "msg_id": StringType(),
    "keys": ArrayType(StringType(), containsNull=False),
    "tags": StringType(),
    "properties": MapType(StringType(), StringType(), valueContainsNull=False),
    "body": BinaryType(),
    "born_timestamp": TimestampType(),
    "store_timestamp": TimestampType(),
    "born_host": StringType(),
    "reconsume_times": IntegerType(),
    "sys_flag": IntegerType(),
}
assert tuple(_TYPES) == ALL_COLUMNS
# Not every message has the first two; a time that is too far away for Spark is none.
MAY_BE_NULL: Final = frozenset(("keys", "tags", "born_timestamp", "store_timestamp"))


def spark_schema(columns: Sequence[str] = ALL_COLUMNS, may_be_null: Collection[str] = MAY_BE_NULL) -> StructType:
    return StructType([StructField(name, _TYPES[name], name in may_be_null) for name in columns])


def check_choice(schema: StructType, columns: Sequence[str]) -> None:
    """ConfigError where options choose other columns than a schema that somebody wrote down."""
    if len(columns) < len(ALL_COLUMNS) and set(schema.names) != set(columns):
        raise ConfigError(
            f"options columns, includeBody and includeProperties choose {', '.join(columns)}, "
            f"and the schema {', '.join(schema.names)}: leave one of them out"
        )


def arrow_schema(
    schema: StructType, may_be_null: Collection[str] = MAY_BE_NULL, *, all_properties: bool = False
) -> pa.Schema:
    """As Spark expects the batches of a schema, which somebody may have written down. ConfigError for columns there are
    not."""
    for field in schema.fields:
        known = _TYPES.get(field.name)
        if known is None:
            raise ConfigError(f"no column {field.name}: expected some of {', '.join(ALL_COLUMNS)}")
        if known.simpleString() != field.dataType.simpleString():  # they may differ in what may be null
            raise ConfigError(
                f"column {field.name} is of type {known.simpleString()}, not {field.dataType.simpleString()}; "
                "leave the schema out, or cast it"
            )
        if field.name in may_be_null and not field.nullable:
            raise ConfigError(f"column {field.name} may be null: leave out its NOT NULL")
    found = to_arrow_schema(schema, timezone="UTC")
    return with_all_properties(found) if all_properties else found
