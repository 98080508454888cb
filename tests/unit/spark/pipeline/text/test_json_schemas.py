"""Schemas in Spark's JSON, checked without Spark, and beside what PySpark makes of them."""

from __future__ import annotations

import json

import pytest

from apogeemq.spark.pipeline.text.ddl import SchemaUnreadable
from apogeemq.spark.pipeline.text.json_schemas import check_json_schema

SIMPLE = (
    *("string", "binary", "boolean", "decimal", "decimal(10,2)", "decimal( 10 , -2 )", "float", "double", "byte"),
    *("short", "integer", "long", "date", "timestamp", "timestamp_ntz", "void", "variant", "interval", "time(6)"),
    *("char(3)", "varchar(9)", "string collate UTF8_LCASE", "interval day", "interval hour to second"),
    *("interval year to month", "geometry", "geometry(OGC:CRS84)"),
)


def struct(*kinds: object) -> dict[str, object]:
    return {"type": "struct", "fields": [{"name": f"f{number}", "type": kind} for number, kind in enumerate(kinds)]}


def array(kind: object) -> dict[str, object]:
    return {"type": "array", "elementType": kind, "containsNull": True}


def mapping(key: object, value: object) -> dict[str, object]:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


GOOD = [struct(), *(struct(kind) for kind in SIMPLE), struct(array(struct(mapping("string", array("long")))), "date")]


@pytest.mark.parametrize("schema", GOOD)
def test_good(schema: dict[str, object]) -> None:
    types = pytest.importorskip("pyspark.sql.types")
    check_json_schema(schema)
    types.StructType.fromJson(json.loads(json.dumps(schema)))


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ([], "expected Spark's JSON of a struct: "),
        (array("string"), "expected Spark's JSON of a struct: "),
        ({"type": "struct"}, "fields: expected a list"),
        (struct({"type": "struct", "fields": {}}), "fields of f0: expected a list"),
        ({"type": "struct", "fields": [1]}, 'a field is 1: expected {"name": …, "type": …}'),
        ({"type": "struct", "fields": [{"name": "a"}]}, "a field is {'name': 'a'}: expected {"),
        ({"type": "struct", "fields": [{"name": 1, "type": "string"}]}, "a field is {'name': 1, "),
        (struct("strin"), "'strin' is not a type in Spark's JSON (the type of f0); did you mean string?"),
        (struct("int4"), "'int4' is not a type in Spark's JSON (the type of f0)"),
        (struct("decimal(10)"), "'decimal(10)' is not a type in Spark's JSON (the type of f0)"),
        (struct("long", array(3)), "3 is not a type in Spark's JSON (the type of f1.elementType)"),
        (struct(array(struct("x"))), "'x' is not a type in Spark's JSON (the type of f0.elementType.f0)"),
        (struct({"type": "array", "elementType": "long"}), "containsNull is missing in the array f0"),
        (struct({"type": "map", "keyType": "long"}), "valueType is missing in the map f0"),
        (struct({"type": "list"}), "'list' is not a type in Spark's JSON that holds others (the type of f0)"),
        (
            {"type": "struct", "fields": [{"name": "a", "type": "long"}, {"name": "A", "type": "long"}]},
            "the column A is there twice",
        ),
    ],
)
def test_bad(schema: object, sentence: str) -> None:
    with pytest.raises(SchemaUnreadable) as raised:
        check_json_schema(schema)
    assert str(raised.value).startswith(sentence)


def test_types_within_types_end_somewhere() -> None:
    kind: object = "long"
    for _ in range(60):
        kind = array(kind)
    with pytest.raises(SchemaUnreadable, match="types are nested more than 50 deep"):
        check_json_schema(struct(kind))
