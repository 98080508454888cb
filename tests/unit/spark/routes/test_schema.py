from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql.pandas.types import to_arrow_schema

from apogeemq.protocol.bodies.journal import JournalLine
from apogeemq.spark.routes.schema import ARROW_SCHEMA, SPARK_SCHEMA, to_batch


def test_batches_are_what_spark_expects() -> None:
    assert to_arrow_schema(SPARK_SCHEMA, timezone="UTC").equals(ARROW_SCHEMA)


def test_every_field_of_a_line_has_a_column() -> None:
    line = JournalLine(17, 1_700_000_000_123, "topic_added", "registered", "c", "b", 1, "h:1", "T", 4, 8, 6, 2, 3)
    batch = to_batch("n:1", [line, JournalLine(18, 0, "broker_left", "closed", "c", "b")])
    assert batch.schema.equals(ARROW_SCHEMA)
    first, second = batch.to_pylist()
    assert first == {
        "name_server": "n:1",
        "sequence": 17,
        "time": datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC),
        "kind": "topic_added",
        "cause": "registered",
        "cluster": "c",
        "broker": "b",
        "broker_id": 1,
        "address": "h:1",
        "topic": "T",
        "read_queues": 4,
        "write_queues": 8,
        "perm": 6,
        "sys_flag": 2,
        "topic_count": 3,
    }
    assert {name: value for name, value in second.items() if value is None}.keys() == {
        *("broker_id", "address", "topic", "read_queues", "write_queues", "perm", "sys_flag", "topic_count")
    }
    assert to_batch("n:1", []).num_rows == 0
