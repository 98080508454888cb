from __future__ import annotations

import pytest

from apogeemq.spark.sink.plan_shape import mixing_ancestor

NARROW = """\
(2) MapPartitionsRDD[9] at start at NativeMethodAccessorImpl.java:0 []
 |  MapPartitionsRDD[8] at start at NativeMethodAccessorImpl.java:0 []
 |  DataSourceRDD[7] at start at NativeMethodAccessorImpl.java:0 []"""
SHUFFLED = """\
(2) MapPartitionsRDD[13] at start at NativeMethodAccessorImpl.java:0 []
 |  ShuffledRowRDD[12] at start at NativeMethodAccessorImpl.java:0 []
 +-(2) MapPartitionsRDD[11] at start at NativeMethodAccessorImpl.java:0 []
    |  DataSourceRDD[7] at start at NativeMethodAccessorImpl.java:0 []"""
STATEFUL = "(2) StateStoreRDD[13] at x []\n |  MapPartitionsRDD[11] at x []"


@pytest.mark.parametrize(
    ("lineage", "expected"),
    [
        (NARROW, None),
        (SHUFFLED, "ShuffledRowRDD"),
        (STATEFUL, "StateStoreRDD"),
        ("(4) UnionRDD[1] at x []", "UnionRDD"),
        ("(4) ZippedPartitionsRDD2[1] at x []", "ZippedPartitionsRDD2"),
    ],
)
def test_rows_are_mixed_where_several_places_are_read(lineage: str, expected: str | None) -> None:
    assert mixing_ancestor(lineage) == expected
