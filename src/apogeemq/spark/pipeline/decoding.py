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
_WHOLE: Final = "__whole"
_PARSED: Final = "__parsed"
_BYTES: Final = "__bytes"


def decoded(frame: DataFrame, decode: Decode) -> DataFrame:
    """The frame with the struct, and with MALFORMED."""
    from pyspark.sql import functions as sql

    given = sql.col(decode.column)
    if decode.skip_bytes:
        given = sql.substring(given, decode.skip_bytes + 1, 2**31 - 1)
    frame = frame.withColumn(_BYTES, given)
    if decode.format is BodyFormat.JSON:
        frame = frame.withColumn(_PARSED, _of_json(decode))
        value = sql.col(_PARSED)[_WHOLE]
        is_malformed = value.isNull() | sql.col(_PARSED)[_CORRUPT].isNotNull() | ~_is_one_json(decode)
    else:
        frame = frame.withColumn(_PARSED, _of_bytes(sql.col(_BYTES), decode))
        value = sql.col(_PARSED)
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


def _of_json(decode: Decode) -> Column:
    """The body as the one field of an object. Spark leaves what follows a document unread, so it must not be the end;
    and a list would become its first element, were it not within something."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StructType

    within = StructType().add(_WHOLE, spark_schema(decode.schema)).add(_CORRUPT, "string")
    options = {"mode": "PERMISSIVE", **decode.options, "columnNameOfCorruptRecord": _CORRUPT}
    return sql.from_json(_between(f'{{"{_WHOLE}":', "}"), within, options)


def _is_one_json(decode: Decode) -> Column:
    """What follows the first document goes on within an object when it begins with a comma or ends that object, and
    within a list when it begins with a comma or ends that list. Of one element in both, nothing but spaces does."""
    from pyspark.sql import functions as sql

    elements = sql.from_json(_between("[", "]"), "ARRAY<STRUCT<>>", {**decode.options, "mode": "PERMISSIVE"})
    return (sql.size(elements) == 1) & sql.is_valid_utf8(_text())


def _between(before: str, after: str) -> Column:
    """A comment may end the body, where options allow that: it ends with its line."""
    from pyspark.sql import functions as sql

    return sql.concat(sql.lit(before), _text(), sql.lit(f"\n{after}"))


def _text() -> Column:
    from pyspark.sql import functions as sql

    return sql.col(_BYTES).cast("string")


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
        raise ConfigError(f"unreadable schema: {error}") from None
    # Its type hints know only the older way of saying which kind of function it is, at which Spark warns.
    column: Column = arrow_udf(rows, schema)(given.cast("binary"))  # type: ignore[call-overload]
    return column
