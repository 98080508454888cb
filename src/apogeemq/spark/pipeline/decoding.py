"""Bodies that become a struct by a schema: JSON by Spark's own function, Avro and Protobuf by Python's libraries.

A body that is not what the schema says makes a null struct and a true in the column MALFORMED; nothing is lost, and no
query fails for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from apogeemq.errors import ConfigError
from apogeemq.spark.pipeline.spec import BodyFormat, Decode
from apogeemq.spark.pipeline.text.ddl import SchemaUnreadable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

MALFORMED: Final = "__malformed"

_CORRUPT: Final = "__corrupt"
_PARSED: Final = "__parsed"
_BYTES: Final = "__bytes"


def decoded(frame: DataFrame, decode: Decode) -> DataFrame:
    """The frame with the struct, and with MALFORMED."""
    from pyspark.sql import functions as sql

    given = sql.col(decode.column)
    if decode.skip_bytes:
        given = sql.substring(given, decode.skip_bytes + 1, 2**31 - 1)
    frame = frame.withColumn(_BYTES, given)
    value = sql.col(_PARSED)
    if decode.format is BodyFormat.JSON:
        frame = frame.withColumn(_PARSED, _of_json(sql.col(_BYTES), decode))
        is_malformed, value = _is_malformed_json(), value.dropFields(_CORRUPT)
    else:
        frame = frame.withColumn(_PARSED, _of_bytes(sql.col(_BYTES), decode))
        is_malformed = value.isNull()
    frame = frame.withColumn(MALFORMED, sql.coalesce(is_malformed, sql.lit(True)))
    return frame.withColumn(decode.into, sql.when(~sql.col(MALFORMED), value)).drop(_PARSED, _BYTES)


def spark_schema(text: str) -> StructType:
    """Of DDL or Spark's JSON."""
    import json

    from pyspark.sql.types import StructType

    if text.startswith("{"):
        return StructType.fromJson(json.loads(text))
    schema = StructType.fromDDL(text)
    assert isinstance(schema, StructType)
    return schema


def _of_json(given: Column, decode: Decode) -> Column:
    from pyspark.sql import functions as sql

    options = {"mode": "PERMISSIVE", **decode.options, "columnNameOfCorruptRecord": _CORRUPT}
    return sql.from_json(given.cast("string"), spark_schema(decode.schema).add(_CORRUPT, "string"), options)


def _is_malformed_json() -> Column:
    from pyspark.sql import functions as sql

    parsed, text = sql.col(_PARSED), sql.col(_BYTES).cast("string")
    # Of a list, Spark would take the first element and leave the rest out without a word.
    is_list = sql.ltrim(text).startswith("[")
    return parsed.isNull() | parsed[_CORRUPT].isNotNull() | is_list | ~sql.is_valid_utf8(text)


def _of_bytes(given: Column, decode: Decode) -> Column:
    from pyspark.sql.pandas.functions import arrow_udf
    from pyspark.sql.pandas.types import to_arrow_type

    from apogeemq.spark.pipeline.bodies import avro, protobuf
    from apogeemq.spark.pipeline.bodies.rows import avro_rows, protobuf_rows

    try:
        if decode.format is BodyFormat.AVRO:
            schema = spark_schema(avro.ddl_of(decode.schema))
            rows = avro_rows(decode.schema, to_arrow_type(schema, timezone="UTC"))
        else:
            descriptor_set = Path(decode.schema).read_bytes()
            schema = spark_schema(protobuf.ddl_of(descriptor_set, decode.message))
            rows = protobuf_rows(descriptor_set, decode.message, to_arrow_type(schema, timezone="UTC"))
    except (SchemaUnreadable, OSError) as error:
        raise ConfigError(f"line {decode.line}: unreadable schema: {error}") from None
    # Its type hints know only the older way of saying which kind of function it is, at which Spark warns.
    column: Column = arrow_udf(rows, schema)(given.cast("binary"))  # type: ignore[call-overload]
    return column
