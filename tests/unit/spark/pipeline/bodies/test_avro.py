from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from apogeemq.spark.pipeline.bodies import avro
from apogeemq.spark.pipeline.bodies.rows import avro_rows
from apogeemq.spark.pipeline.text.ddl import SchemaUnreadable, checked_ddl
from tests.shop_messages import AVRO_ORDER, avro_body

UTC = datetime.UTC


def record(*fields: tuple[str, Any], name: str = "R") -> str:
    return json.dumps(
        {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields]}
    )


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("boolean", "BOOLEAN"),
        ("int", "INT"),
        ("long", "BIGINT"),
        ("float", "FLOAT"),
        ("double", "DOUBLE"),
        ("bytes", "BINARY"),
        ("string", "STRING"),
        ({"type": "string"}, "STRING"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "STRING"),
        ({"type": "fixed", "name": "F", "size": 3}, "BINARY"),
        ({"type": "array", "items": "int"}, "ARRAY<INT>"),
        ({"type": "map", "values": ["null", "int"]}, "MAP<STRING, INT>"),
        ({"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}]}, "STRUCT<`x`: INT>"),
        (["null", "string"], "STRING"),
        (["string", "null"], "STRING"),
        (["null", "int", "long"], "BIGINT"),
        (["double", "float"], "DOUBLE"),
        ({"type": "int", "logicalType": "date"}, "DATE"),
        ({"type": "long", "logicalType": "timestamp-micros"}, "TIMESTAMP"),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, "TIMESTAMP_NTZ"),
        ({"type": "long", "logicalType": "time-micros"}, "BIGINT"),
        ({"type": "string", "logicalType": "uuid"}, "STRING"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}, "DECIMAL(10, 2)"),
        ({"type": "fixed", "name": "D", "size": 8, "logicalType": "decimal", "precision": 4}, "DECIMAL(4, 0)"),
    ],
)
def test_columns(kind: Any, expected: str) -> None:
    found = avro.ddl_of(record(("a b`c", kind)))
    assert found == f"`a b``c`: {expected}"
    assert checked_ddl(found) == ["a b`c"]


def test_a_named_type_is_used_twice() -> None:
    line = {"type": "record", "name": "Line", "fields": [{"name": "n", "type": "int"}]}
    assert avro.ddl_of(record(("a", line), ("b", ["null", "Line"]))) == "`a`: STRUCT<`n`: INT>, `b`: STRUCT<`n`: INT>"


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ('"int"', "only records are decoded"),
        ('{"type": "recrd"}', "'recrd'} is not a type of Avro"),
        ('{"type": "record", "name": "R", "fields": []}', "the record R has no fields"),
        ('{"type": "record", "name": "R", "fields": [{}]}', "not a schema of Avro"),
        ("{", "not a schema of Avro"),
        (record(("a", "Line")), "Line is not a type of Avro, nor named in the schema"),
        (record(("a", "int"), ("A", "int")), "the column A is there twice"),
        (record(("a", "null")), "a: null alone is no column"),
        (record(("a", ["int", "string"])), "a: a union of several types has no column"),
        (record(("a", ["null", "R"])), "a: the record R contains itself"),
        (record(("a", {"type": "array", "items": "null"})), "a: an array of items that take no bytes"),
        (
            record(("a", {"type": "array", "items": {"type": "fixed", "name": "Z", "size": 0}})),
            "a: an array of items that take no bytes",
        ),
        (
            record(("a", {"type": "bytes", "logicalType": "decimal", "precision": 39})),
            "a: a decimal has 1 to 38 digits",
        ),
    ],
)
def test_schemas_without_columns(schema: str, sentence: str) -> None:
    with pytest.raises(SchemaUnreadable) as caught:
        avro.ddl_of(schema)
    assert sentence in str(caught.value)


def test_a_body_of_known_bytes() -> None:
    read = avro.reader_of(record(("name", "string"), ("count", "int"), ("note", ["null", "string"])))
    assert read(b"\x06pea\x0d\x00") == {"name": "pea", "count": -7, "note": None}


ROW = pa.struct(
    [
        ("id", pa.int64()),
        ("product", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", tz="UTC")),
        ("note", pa.string()),
    ]
)


def test_rows() -> None:
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    order = {"id": 7, "product": "pear", "price": Decimal("2.50"), "at": moment, "note": None}
    good = avro_body(AVRO_ORDER, order)
    bodies = pa.array([good, good[:-1], good + b"\x00", b"", None, b"\xff" * 40, good], pa.binary())
    found = avro_rows(AVRO_ORDER, ROW)(bodies)
    assert found.type == ROW
    assert found.to_pylist() == [order, None, None, None, None, None, order]


def test_a_value_that_no_column_holds_is_malformed_alone() -> None:
    good = {
        "id": 1,
        "product": "a",
        "price": Decimal("1.00"),
        "at": datetime.datetime(2026, 1, 1, tzinfo=UTC),
        "note": "x",
    }
    twelve_digits = avro_body(AVRO_ORDER, good).replace(b"\x02\x64", b"\x0c\x7f\xff\xff\xff\xff\xff")
    assert avro.reader_of(AVRO_ORDER)(twelve_digits) is not None
    found = avro_rows(AVRO_ORDER, ROW)(pa.array([twelve_digits, avro_body(AVRO_ORDER, good)], pa.binary()))
    assert found.to_pylist() == [None, good]
