"""Schemas in Spark's JSON form (`df.schema.json()`), checked without Spark. Pure."""

from __future__ import annotations

import re
from typing import Final

from apogeemq.spark.pipeline.text.ddl import MAX_DEPTH, SchemaUnreadable
from apogeemq.spark.pipeline.text.problems import only_near

_SIMPLE_TYPES: Final = frozenset(
    (
        *("string", "binary", "boolean", "decimal", "float", "double", "byte", "short", "integer", "long"),
        *("date", "timestamp", "timestamp_ntz", "void", "variant", "interval", "geometry", "geography"),
    )
)
_OTHER_TYPES: Final = re.compile(
    r"decimal\(\s*\d+\s*,\s*-?\d+\s*\)|(time|char|varchar)\(\s*\d+\s*\)|string\s+collate\s+\w+"
    r"|interval (day|hour|minute|second)( to (day|hour|minute|second))?|interval (year|month)( to (year|month))?"
    r"|(geometry|geography)\([^()]+\)"
)
# What stands beside the name of a type that holds others: types, and whether they hold nulls.
_HELD: Final = {"array": (("elementType",), "containsNull"), "map": (("keyType", "valueType"), "valueContainsNull")}


def check_json_schema(schema: object) -> None:
    """SchemaUnreadable for what is not the JSON of a struct."""
    if not isinstance(schema, dict) or schema.get("type") != "struct":
        raise SchemaUnreadable('expected Spark\'s JSON of a struct: {"type": "struct", "fields": […]}')
    _check(schema, "", 0)


def _check(kind: object, where: str, depth: int) -> None:
    """`where`: names of fields, with dots between them."""
    if depth > MAX_DEPTH:
        raise SchemaUnreadable(f"types are nested more than {MAX_DEPTH} deep")
    if isinstance(kind, str):
        if kind not in _SIMPLE_TYPES and not _OTHER_TYPES.fullmatch(kind):
            near = only_near(kind, (*_SIMPLE_TYPES, *_HELD, "struct"))
            raise SchemaUnreadable(f"{kind!r} is not a type in Spark's JSON (the type of {where}){near}")
        return
    name = kind.get("type") if isinstance(kind, dict) else None
    if not isinstance(kind, dict) or not isinstance(name, str):
        raise SchemaUnreadable(f"{kind!r} is not a type in Spark's JSON (the type of {where})")
    if name == "struct":
        _check_fields(kind.get("fields"), where, depth)
    elif name in _HELD:
        types, nulls = _HELD[name]
        for key in (*types, nulls):
            if key not in kind:
                raise SchemaUnreadable(f"{key} is missing in the {name} {where}")
        for key in types:
            _check(kind[key], f"{where}.{key}", depth + 1)
    elif name != "udt":
        raise SchemaUnreadable(f"{name!r} is not a type in Spark's JSON that holds others (the type of {where})")


def _check_fields(fields: object, where: str, depth: int) -> None:
    of = f" of {where}" if where else ""
    if not isinstance(fields, list):
        raise SchemaUnreadable(f"fields{of}: expected a list")
    names: set[str] = set()
    for field in fields:
        name = field.get("name") if isinstance(field, dict) else None
        if not isinstance(field, dict) or not isinstance(name, str) or "type" not in field:
            raise SchemaUnreadable(f'a field{of} is {field!r}: expected {{"name": …, "type": …}}')
        if name.lower() in names:
            raise SchemaUnreadable(f"the column {name} is there twice")
        names.add(name.lower())
        _check(field["type"], f"{where}.{name}".lstrip("."), depth + 1)
