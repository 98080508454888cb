"""Schemas that a pipeline file holds or names: read, and checked as far as that goes without Spark. Pure."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from apogeemq.spark.pipeline.bodies import avro, protobuf
from apogeemq.spark.pipeline.spec import BodyFormat, Decode, Malformed
from apogeemq.spark.pipeline.text.ddl import SchemaUnreadable, checked_ddl
from apogeemq.spark.pipeline.text.json_schemas import check_json_schema
from apogeemq.spark.pipeline.text.tables import TableReader
from apogeemq.spark.quoting import quoted

if TYPE_CHECKING:
    from apogeemq.spark.pipeline.text.parsing import Surroundings

MAX_SKIPPED_BYTES: Final = 1024


def read_schema(table: TableReader, surroundings: Surroundings) -> str:
    """`schema` (DDL, or a table of columns) or `schema_file`, as one text; "" when both are empty."""
    given, file = table.take("schema"), table.text("schema_file")
    is_given = not table.is_empty("schema")
    if is_given and file:
        table.wrong("schema_file", "either schema or schema_file, not both")
    if not is_given and not file:
        return ""
    key = "schema" if is_given else "schema_file"
    try:
        text = _ddl_text(given) if is_given else _text(file, surroundings).strip()
        check_spark_schema(text)
        return text
    except (SchemaUnreadable, UnicodeDecodeError) as error:
        table.wrong(key, f"unreadable schema: {error}")
        return ""


def read_decode(table: TableReader, surroundings: Surroundings) -> Decode:
    form = table.choice("format", BodyFormat, BodyFormat.JSON)
    table.required("format", "one of json, avro, protobuf")
    message = table.text("message")
    if form is BodyFormat.JSON:
        schema = read_schema(table, surroundings)
    elif form is BodyFormat.AVRO:
        schema = _avro_schema(table, surroundings)
    else:
        schema = _descriptor(table, surroundings, message)
    if table.is_empty("schema") and table.is_empty("schema_file"):
        table.wrong("", f"a schema is missing: {_WANTED[form]}")
    if message and form is not BodyFormat.PROTOBUF:
        table.wrong("message", "is for protobuf alone")
    options = table.options("options")
    if options and form is not BodyFormat.JSON:
        table.wrong("options", "go to Spark's function for JSON; this format has none")
    decode = Decode(
        format=form,
        schema=schema,
        message=message,
        column=table.text("column", "body"),
        into=table.text("into", "value"),
        skip_bytes=table.whole("skip_bytes", 0, most=MAX_SKIPPED_BYTES),
        malformed=table.choice("malformed", Malformed, Malformed.DEAD_LETTER),
        options=options,
        line=table.line,
    )
    table.finish()
    return decode


_WANTED: Final = {
    BodyFormat.JSON: "schema with DDL, or schema_file with the name of a file of it",
    BodyFormat.AVRO: "schema with Avro's JSON, or schema_file with the name of an .avsc file",
    BodyFormat.PROTOBUF: "schema_file with the name of a descriptor set (protoc --descriptor_set_out)",
}


def check_spark_schema(text: str) -> None:
    """DDL, or Spark's JSON form of a struct. SchemaUnreadable."""
    if not text.startswith("{"):
        checked_ddl(text)
        return
    check_json_schema(_json(text))


def _ddl_text(given: object) -> str:
    if isinstance(given, str):
        return given.strip()
    if isinstance(given, dict) and given and all(isinstance(kind, str) for kind in given.values()):
        return ", ".join(f"{quoted(name)} {kind}" for name, kind in given.items())
    raise SchemaUnreadable("expected DDL such as 'id STRING, price DOUBLE', or a table of names and types")


def _avro_schema(table: TableReader, surroundings: Surroundings) -> str:
    given, file = table.text("schema"), table.text("schema_file")
    if given and file:
        table.wrong("schema_file", "either schema or schema_file, not both")
    if not given and not file:
        return ""
    try:
        text = given or _text(file, surroundings)
        _json(text)
        with suppress(ImportError):  # without the extra for Spark, this is as far as it goes
            avro.ddl_of(text)
        return text
    except (SchemaUnreadable, UnicodeDecodeError) as error:
        table.wrong("schema" if given else "schema_file", f"unreadable schema: {error}")
        return ""


def _descriptor(table: TableReader, surroundings: Surroundings, message: str) -> str:
    file = table.text("schema_file")
    if table.take("schema") is not None:
        table.wrong("schema", "protobuf is decoded by a descriptor set: schema_file")
    if not message:
        table.wrong("", "message is missing: the full name of the message, such as shop.Order")
    if not file:
        return ""
    try:
        content = _read(file, surroundings)
        if message:
            with suppress(ImportError):
                protobuf.ddl_of(content, message)
    except SchemaUnreadable as error:
        table.wrong("schema_file", f"unreadable schema: {error}")
    return surroundings.path_of(file)


def _read(file: str, surroundings: Surroundings) -> bytes:
    try:
        return surroundings.read(file)
    except OSError as error:
        raise SchemaUnreadable(f"cannot read {file}: {error.strerror or error}") from None


def _text(file: str, surroundings: Surroundings) -> str:
    return _read(file, surroundings).decode("utf-8-sig")


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaUnreadable(f"not JSON: {error}") from None
