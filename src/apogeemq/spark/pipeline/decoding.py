"""Bodies that become a struct by a schema: JSON, Avro and Protobuf, by Spark's own functions.

A body that is not what the schema says makes a null struct and a true in the column MALFORMED; nothing is lost, and no
query fails for it. Avro and Protobuf need a module of Spark's that is not in PySpark: `needed_packages`.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from apogeemq.spark.pipeline.spec import BodyFormat, Decode, PipelineSpec

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

MALFORMED: Final = "__malformed"

_CORRUPT: Final = "__corrupt"
_PARSED: Final = "__parsed"
_BYTES: Final = "__bytes"
_MODULES: Final = {BodyFormat.AVRO: "spark-avro", BodyFormat.PROTOBUF: "spark-protobuf"}


def needed_packages(spec: PipelineSpec, spark_version: str) -> list[str]:
    """Of Maven, for `spark.jars.packages`: those the file asks for, and what decoding needs and `spark.jars` lacks."""
    wanted = list(spec.packages)
    jars = spec.spark_conf.get("spark.jars", "")
    for source in spec.sources.values():
        module = _MODULES.get(source.decode.format) if source.decode is not None else None
        if module is not None and f"/{module}_" not in jars and not any(f":{module}_" in name for name in wanted):
            wanted.append(f"org.apache.spark:{module}_2.13:{spark_version}")
    return wanted


def decoded(frame: DataFrame, decode: Decode) -> DataFrame:
    """The frame with the struct, and with MALFORMED."""
    from pyspark.sql import functions as sql

    given = sql.col(decode.column)
    if decode.skip_bytes:
        given = sql.substring(given, decode.skip_bytes + 1, 2**31 - 1)
    frame = frame.withColumn(_BYTES, given)
    frame = frame.withColumn(_PARSED, _parsed(sql.col(_BYTES), decode))
    frame = frame.withColumn(MALFORMED, sql.coalesce(_is_malformed(frame, decode), sql.lit(True)))
    value = sql.col(_PARSED)
    if decode.format is BodyFormat.JSON:
        value = value.dropFields(_CORRUPT)
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


def _parsed(given: Column, decode: Decode) -> Column:
    from pyspark.sql import functions as sql

    options = {"mode": "PERMISSIVE", **decode.options}
    if decode.format is BodyFormat.JSON:
        schema = spark_schema(decode.schema).add(_CORRUPT, "string")
        return sql.from_json(given.cast("string"), schema, {**options, "columnNameOfCorruptRecord": _CORRUPT})
    if decode.format is BodyFormat.AVRO:
        from pyspark.sql.avro.functions import from_avro

        return from_avro(given.cast("binary"), decode.schema, options)
    from pyspark.sql.protobuf.functions import from_protobuf

    return from_protobuf(given.cast("binary"), decode.message, decode.schema, options)


def _is_malformed(frame: DataFrame, decode: Decode) -> Column:
    from pyspark.sql import functions as sql

    parsed, text = sql.col(_PARSED), sql.col(_BYTES).cast("string")
    if decode.format is BodyFormat.JSON:
        # Of a list, Spark would take the first element and leave the rest out without a word.
        is_list = sql.ltrim(text).startswith("[")
        return parsed.isNull() | parsed[_CORRUPT].isNotNull() | is_list | ~sql.is_valid_utf8(text)
    if decode.format is BodyFormat.AVRO:
        # Spark makes a record of nulls of what it cannot read.
        fields = _fields(frame)
        return parsed.isNull() | reduce(lambda one, other: one & other, [parsed[name].isNull() for name in fields])
    return parsed.isNull()


def _fields(frame: DataFrame) -> list[str]:
    from pyspark.sql.types import StructType

    kind = frame.schema[_PARSED].dataType
    assert isinstance(kind, StructType), "only records are decoded"
    return kind.names
