"""Avro records without a container, one a body."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any, Final

from apogeemq.spark.pipeline.text.ddl import SchemaUnreadable, checked_ddl
from apogeemq.spark.quoting import quoted

_PRIMITIVES: Final = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "bytes": "BINARY",
    "string": "STRING",
    "enum": "STRING",
    "fixed": "BINARY",
}
_LOGICAL: Final = {
    ("int", "date"): "DATE",
    ("long", "timestamp-millis"): "TIMESTAMP",
    ("long", "timestamp-micros"): "TIMESTAMP",
    ("long", "local-timestamp-millis"): "TIMESTAMP_NTZ",
    ("long", "local-timestamp-micros"): "TIMESTAMP_NTZ",
}
# Unions that one column holds.
_WIDER: Final = {frozenset(("int", "long")): "long", frozenset(("float", "double")): "double"}
_MOST_DIGITS: Final = 38


def ddl_of(text: str) -> str:
    """The columns that a record of this schema makes. SchemaUnreadable."""
    from fastavro.schema import SchemaParseException, UnknownType, expand_schema

    try:
        schema = expand_schema(_plain(json.loads(text)))
    except UnknownType as error:
        raise SchemaUnreadable(f"{error} is not a type of Avro, nor named in the schema") from None
    except (SchemaParseException, ValueError, KeyError, TypeError, RecursionError) as error:
        raise SchemaUnreadable(f"not a schema of Avro: {error}") from None
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise SchemaUnreadable("only records are decoded")
    columns = _fields(schema, "")
    checked_ddl(columns)
    return columns


def reader_of(text: str) -> Callable[[bytes], object]:
    """Turns a body into a dictionary; raises whatever it will at one that is not what the schema says."""
    import fastavro

    schema = fastavro.parse_schema(_plain(json.loads(text)))

    def read(body: bytes) -> object:
        source = io.BytesIO(body)
        record = fastavro.schemaless_reader(source, schema, None)
        if source.tell() != len(body):
            raise ValueError("bytes after the record")
        return record

    return read


def _plain(schema: Any) -> Any:
    """Without those meanings that no column has: such a value stays what it is stored as."""
    if isinstance(schema, list):
        return [_plain(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    meaning = schema.get("logicalType")
    is_kept = meaning == "decimal" or (str(schema.get("type")), meaning) in _LOGICAL
    return {name: _plain(part) for name, part in schema.items() if is_kept or name != "logicalType"}


def _fields(record: dict[str, object], path: str) -> str:
    fields = record.get("fields")
    if not isinstance(fields, list) or not fields:
        raise SchemaUnreadable(f"the record {record.get('name')} has no fields")
    columns = []
    for field in fields:
        name = field["name"]
        columns.append(f"{quoted(name)}: {_column(field['type'], f'{path}.{name}'.lstrip('.'))}")
    return ", ".join(columns)


def _column(schema: object, path: str) -> str:
    if isinstance(schema, list):
        return _union(schema, path)
    if isinstance(schema, str):
        if schema in _PRIMITIVES:
            return _PRIMITIVES[schema]
        reason = "null alone is no column" if schema == "null" else f"the record {schema} contains itself"
        raise SchemaUnreadable(f"{path}: {reason}")
    assert isinstance(schema, dict)
    kind: str = schema["type"]
    match kind:
        case "record":
            return f"STRUCT<{_fields(schema, path)}>"
        case "array":
            # A count of items without bytes would cost a sender nothing and the reader all of its memory.
            if _is_empty(schema["items"]):
                raise SchemaUnreadable(f"{path}: an array of items that take no bytes")
            return f"ARRAY<{_column(schema['items'], path)}>"
        case "map":
            return f"MAP<STRING, {_column(schema['values'], path)}>"
        case "bytes" | "fixed" if schema.get("logicalType") == "decimal":
            return _decimal(schema, path)
        case _:
            return _LOGICAL.get((kind, str(schema.get("logicalType")))) or _column(kind, path)


def _union(kinds: list[object], path: str) -> str:
    others = [kind for kind in kinds if kind != "null"]
    if len(others) == 1:
        return _column(others[0], path)
    wider = _WIDER.get(frozenset(kind for kind in others if isinstance(kind, str))) if len(others) == 2 else None
    if wider is None:
        raise SchemaUnreadable(f"{path}: a union of several types has no column; one type and null has")
    return _column(wider, path)


def _decimal(schema: dict[str, object], path: str) -> str:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision <= _MOST_DIGITS:
        raise SchemaUnreadable(
            f"{path}: a decimal has 1 to {_MOST_DIGITS} digits, and no more than those after the point"
        )
    return f"DECIMAL({precision}, {scale})"


def _is_empty(schema: object) -> bool:
    if isinstance(schema, dict):
        if schema["type"] == "record":
            fields = schema.get("fields")
            return isinstance(fields, list) and all(_is_empty(field["type"]) for field in fields)
        return schema["type"] == "null" or (schema["type"] == "fixed" and schema.get("size") == 0)
    return schema == "null"
