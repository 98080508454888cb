"""Spark is given every row of a batch once, in order, a portion at a time."""

from __future__ import annotations

import pyarrow as pa
import pytest

from apogeemq.spark.reading.slices import BYTES, slices_of

SCHEMA = pa.schema([("number", pa.int64()), ("body", pa.binary())])


def batch_of(sizes: list[int]) -> pa.RecordBatch:
    return pa.record_batch([range(len(sizes)), [b"x" * size for size in sizes]], schema=SCHEMA)


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param([1024] * 5000, id="alike"),
        pytest.param([0] * 10 + [BYTES * 3] + [10] * 10, id="one is larger than a portion"),
        pytest.param([7], id="a single row"),
    ],
)
def test_all_rows_come_in_order(sizes: list[int]) -> None:
    batch = batch_of(sizes)
    portions = list(slices_of(batch))
    assert pa.concat_batches(portions).equals(batch)


def test_portions_of_rows_alike_have_a_megabyte_at_most() -> None:
    portions = list(slices_of(batch_of([1024] * 5000)))
    assert len(portions) > 1
    assert all(portion.nbytes <= BYTES for portion in portions)


def test_few_rows_are_one_portion() -> None:
    assert [portion.num_rows for portion in slices_of(batch_of([100] * 50))] == [50]


def test_no_rows_are_no_portion() -> None:
    assert not list(slices_of(batch_of([])))
