"""Columns as Spark and Arrow know them, and schemas that somebody writes down."""

from __future__ import annotations

import pickle

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, LongType, MapType, StringType, StructField, StructType

from apogeemq.errors import ConfigError
from apogeemq.spark.source.batch_reader import BatchReader
from apogeemq.spark.source.columns import ALL_COLUMNS
from apogeemq.spark.source.data_source import RocketMQDataSource
from apogeemq.spark.source.push_down import Pushed
from apogeemq.spark.source.schema import MAY_BE_NULL, arrow_schema, spark_schema

OPTIONS = {"nameServer": "a:1", "subscribe": "t"}


def test_columns_are_in_their_order() -> None:
    assert spark_schema().fieldNames() == arrow_schema(spark_schema()).names == list(ALL_COLUMNS)
    assert spark_schema(("body", "topic")).fieldNames() == ["body", "topic"]


def test_times_are_as_spark_wants_them() -> None:
    assert str(arrow_schema(spark_schema(("store_timestamp",))).field(0).type) == "timestamp[us, tz=UTC]"


def test_a_schema_chooses_columns_and_whether_they_may_be_null() -> None:
    wanted = StructType(
        [
            StructField("body", BinaryType()),
            StructField("topic", StringType(), nullable=False),
            StructField("properties", MapType(StringType(), StringType())),
        ]
    )
    found = arrow_schema(wanted)
    assert found.equals(to_arrow_schema(wanted, timezone="UTC"))
    assert (found.names, found.field("body").nullable) == (["body", "topic", "properties"], True)


def test_only_some_columns_may_be_null() -> None:
    assert {field.name for field in spark_schema().fields if field.nullable} == MAY_BE_NULL


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (StructField("colour", StringType()), "no column colour: expected some of topic, broker"),
        (StructField("queue_id", LongType()), "column queue_id is of type int, not bigint"),
        (StructField("tags", StringType(), nullable=False), "column tags may be null"),
    ],
)
def test_a_schema_of_something_else_is_refused(field: StructField, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        arrow_schema(StructType([field]))


@pytest.mark.parametrize("options", [{"columns": "topic"}, {"includeBody": "false"}, {"includeProperties": "false"}])
@pytest.mark.parametrize("read", ["reader", "streamReader"])
def test_options_and_a_schema_cannot_choose_differently(options: dict[str, str], read: str) -> None:
    source = RocketMQDataSource({**OPTIONS, **options})
    with pytest.raises(ConfigError, match=r"options columns, .* and the schema body, properties"):
        getattr(source, read)(spark_schema(("body", "properties")))
    getattr(source, read)(spark_schema(tuple(reversed(source.schema().fieldNames()))))


def test_the_source_shows_the_columns_of_its_options() -> None:
    assert RocketMQDataSource.name() == "rocketmq"
    assert RocketMQDataSource({**OPTIONS, "includeBody": "false"}).schema().fieldNames() == [
        name for name in ALL_COLUMNS if name != "body"
    ]
    with pytest.raises(ConfigError, match="unknown option"):
        RocketMQDataSource({**OPTIONS, "colour": "red"}).schema()


def test_readers_travel() -> None:
    source = RocketMQDataSource(OPTIONS)
    for reader in (source.reader(spark_schema()), source.streamReader(spark_schema())):
        assert type(pickle.loads(pickle.dumps(reader))) is type(reader)


def test_a_reader_takes_filters_unless_told_not_to_and_is_not_refused_where_spark_hands_none_over() -> None:
    from pyspark.sql.datasource import DataSourceReader, EqualTo, Filter

    reader = RocketMQDataSource(OPTIONS).reader(spark_schema())
    assert getattr(reader.pushFilters, "__func__", None) is DataSourceReader.pushFilters  # as Spark looks for it
    wanted: list[Filter] = [EqualTo(("topic",), "T")]
    for option, is_taken in (("true", True), ("false", False)):
        reader = RocketMQDataSource({**OPTIONS, "pushFilters": option}).reader(spark_schema())
        assert list(reader.pushFilters(wanted)) == wanted  # Spark looks at every row again
        assert isinstance(reader, BatchReader)
        assert (reader._pushed != Pushed()) == is_taken
