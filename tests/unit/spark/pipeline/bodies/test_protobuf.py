from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from apogeemq.spark.pipeline.bodies import protobuf
from apogeemq.spark.pipeline.bodies.rows import protobuf_rows
from apogeemq.spark.pipeline.text.ddl import SchemaUnreadable, checked_ddl
from tests.shop_messages import ORDER_MESSAGE, descriptor_set, protobuf_body

LINE = pa.struct([("product", pa.string()), ("count", pa.int64())])
ROW = pa.struct(
    [
        ("id", pa.int64()),
        ("serial", pa.decimal128(20, 0)),
        ("price", pa.float64()),
        ("blob", pa.binary()),
        ("state", pa.string()),
        ("first", LINE),
        ("at", pa.timestamp("us", tz="UTC")),
        ("took", pa.duration("us")),
        ("lines", pa.list_(LINE)),
        ("counts", pa.map_(pa.string(), pa.int32())),
    ]
)


def test_columns() -> None:
    found = protobuf.ddl_of(descriptor_set(), ORDER_MESSAGE)
    assert found == (
        "`id`: BIGINT, `serial`: DECIMAL(20, 0), `price`: DOUBLE, `blob`: BINARY, `state`: STRING, "
        "`first`: STRUCT<`product`: STRING, `count`: BIGINT>, `at`: TIMESTAMP, `took`: INTERVAL DAY TO SECOND, "
        "`lines`: ARRAY<STRUCT<`product`: STRING, `count`: BIGINT>>, `counts`: MAP<STRING, INT>"
    )
    assert checked_ddl(found) == [field.name for field in ROW]


@pytest.mark.parametrize(
    ("given", "message", "sentence"),
    [
        (b"no", "shop.Order", "not a whole descriptor set (protoc --include_imports --descriptor_set_out)"),
        (b"", "shop.Order", "there is no message shop.Order; it has none at all"),
        (descriptor_set(), "shop.Oder", "there is no message shop.Oder; did you mean shop.Order?"),
        (descriptor_set(), "Zzz", "there is no message Zzz; it has google.protobuf.Duration, google.protobuf.Times"),
        (descriptor_set(), "shop.Tree", "the message shop.Tree contains itself"),
        (descriptor_set(), "shop.Nothing", "the message shop.Nothing has no fields"),
    ],
)
def test_schemas_without_columns(given: bytes, message: str, sentence: str) -> None:
    with pytest.raises(SchemaUnreadable) as caught:
        protobuf.ddl_of(given, message)
    assert str(caught.value).startswith(sentence)


def test_an_import_that_is_missing() -> None:
    whole = FileDescriptorSet.FromString(descriptor_set())
    with pytest.raises(SchemaUnreadable, match="not a whole descriptor set"):
        protobuf.ddl_of(FileDescriptorSet(file=[whole.file[-1]]).SerializeToString(), ORDER_MESSAGE)


def test_rows() -> None:
    whole = protobuf_body(
        id=-5,
        serial=2**64 - 1,
        price=2.5,
        blob=b"\x00\xff",
        state=1,
        first={"product": "pear", "count": 2**32 - 1},
        at={"seconds": 1_767_225_600, "nanos": 123_456_789},
        took={"seconds": 2, "nanos": 5_000},
        lines=[{"product": "a"}, {"count": 3}],
        counts={"x": 1},
    )
    bodies = pa.array([whole, b"", None, whole[:-1], b"\xff\xff\xff", b"\x28\x09"], pa.binary())
    rows = protobuf_rows(descriptor_set(), ORDER_MESSAGE, ROW)(bodies).to_pylist()
    assert rows[0] == {
        "id": -5,
        "serial": Decimal(2**64 - 1),
        "price": 2.5,
        "blob": b"\x00\xff",
        "state": "PAID",
        "first": {"product": "pear", "count": 2**32 - 1},
        "at": datetime.datetime(2026, 1, 1, 0, 0, 0, 123_456, tzinfo=datetime.UTC),
        "took": datetime.timedelta(seconds=2, microseconds=5),
        "lines": [{"product": "a", "count": 0}, {"product": "", "count": 3}],
        "counts": [("x", 1)],
    }
    # No bytes are a message all of whose fields have their defaults; what can be missing is null.
    assert rows[1] == {
        "id": 0,
        "serial": Decimal(0),
        "price": 0.0,
        "blob": b"",
        "state": "OPEN",
        "first": None,
        "at": None,
        "took": None,
        "lines": [],
        "counts": [],
    }
    assert rows[2:5] == [None, None, None]
    assert rows[5]["state"] == "9"  # newer than the schema
