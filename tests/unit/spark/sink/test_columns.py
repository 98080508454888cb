from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from apogeemq.errors import ConfigError
from apogeemq.spark.sink.columns import SinkColumns, check_columns
from apogeemq.spark.sink.write_options import read_write_options

TEXT, NUMBER = StringType(), LongType()
PLACE: dict[str, DataType] = {"broker": TEXT, "queue_id": IntegerType(), "queue_offset": NUMBER}
WINDOW = StructType([StructField("start", TimestampType()), StructField("end", TimestampType())])


def check(
    columns: dict[str, DataType], options: dict[str, str] | None = None, *, needs_ids: bool = False, topic: str = "T"
) -> SinkColumns:
    schema = StructType([StructField(name, kind) for name, kind in columns.items()])
    read = read_write_options({"nameServer": "x:1", "topic": topic, **(options or {})})
    return check_columns(schema, read, needs_ids=needs_ids)


def test_all_columns_a_message_can_have() -> None:
    columns: dict[str, DataType] = {
        "body": BinaryType(),
        "topic": TEXT,
        "keys": ArrayType(TEXT),
        "tags": TEXT,
        "properties": MapType(TEXT, TEXT),
        "sharding_key": TEXT,
        "delay": IntegerType(),
        "deliver_at": TimestampType(),
    }
    assert check(columns, topic="").present == columns.keys()
    assert check(columns).present == columns.keys() - {"topic"}  # the option counts
    assert check({"body": TEXT, "keys": TEXT}).present == {"body", "keys"}


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ({"value": TEXT}, {}, "no column body among value"),
        ({"body": NUMBER}, {}, "column body is bigint: expected string or binary"),
        ({"body": TEXT}, {"topic": ""}, "nothing says where rows go"),
        ({"body": TEXT}, {"topic": "", "topics": "a"}, "nothing says where rows go"),
        ({"body": TEXT, "price": NUMBER, "when": NUMBER}, {}, "columns price, when have no place"),
        ({"body": TEXT, "topic": NUMBER}, {"topic": ""}, "column topic is bigint"),
        ({"body": TEXT, "keys": ArrayType(NUMBER)}, {}, "column keys is array<bigint>"),
        ({"body": TEXT, "tags": ArrayType(TEXT)}, {}, "column tags is array<string>"),
        ({"body": TEXT, "properties": MapType(TEXT, NUMBER)}, {}, "column properties is map<string,bigint>"),
        ({"body": TEXT, "delay": TEXT}, {}, "column delay is string"),
        ({"body": TEXT, "deliver_at": TimestampNTZType()}, {}, "column deliver_at is timestamp_ntz"),
        ({"body": TEXT, "deliver_at": NUMBER}, {}, "column deliver_at is bigint: expected timestamp"),
        ({"body": TEXT}, {"orderByShardingKey": "true"}, "no column sharding_key"),
        ({"body": TEXT}, {"idColumns": "a,b"}, "idColumns names a, b"),
        ({"body": TEXT, "a": DoubleType()}, {"idColumns": "a"}, "idColumns names a, which is double"),
    ],
)
def test_what_is_wrong_is_named(columns: dict[str, DataType], options: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check(columns, options)


def test_columns_of_ids_are_not_written() -> None:
    found = check({"body": TEXT, "window": WINDOW, "product": TEXT}, {"idColumns": "window,product"}, needs_ids=True)
    assert found == SinkColumns(present=frozenset(("body",)), id_columns=("window", "product"))


def test_the_place_of_the_source_message_tells_rows_apart() -> None:
    found = check({"body": TEXT, "topic": TEXT, **PLACE}, needs_ids=True)
    assert found.position == ("topic", "broker", "queue_id", "queue_offset")
    found = check({"body": TEXT, "topic": TEXT, "source_topic": TEXT, **PLACE}, needs_ids=True, topic="")
    assert found.position == ("source_topic", "broker", "queue_id", "queue_offset")


def test_where_a_row_goes_is_not_where_it_came_from() -> None:
    with pytest.raises(ConfigError, match="columns broker, queue_id, queue_offset have no place"):
        check({"body": TEXT, "topic": TEXT, **PLACE}, needs_ids=True, topic="")


def test_the_place_has_no_place_where_nobody_needs_it() -> None:
    with pytest.raises(ConfigError, match="columns broker, queue_id, queue_offset have no place"):
        check({"body": TEXT, "topic": TEXT, **PLACE})
    assert check({"body": TEXT}, needs_ids=True).position == ()
