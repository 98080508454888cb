from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from apogeemq.errors import MessageIllegal
from apogeemq.spark.sink.arrow_texts import keys_of
from apogeemq.spark.sink.columns import SinkColumns
from apogeemq.spark.sink.ids import Ids, IdScope
from apogeemq.spark.sink.row_ids import FreshIds, KeyIds, PositionIds, row_ids

PLACE = ("topic", "broker", "queue_id", "queue_offset")


def batch(**columns: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def places(*rows: tuple[str, str, int, int]) -> pa.RecordBatch:
    return batch(**{name: [row[number] for row in rows] for number, name in enumerate(PLACE)})


def as_set(ids: Ids) -> set[bytes]:
    return {row.tobytes() for row in ids}


def as_list(ids: Ids) -> list[bytes]:
    return [row.tobytes() for row in ids]


def test_the_columns_say_what_ids_are_made_of() -> None:
    scope, present = IdScope("q"), frozenset(("body",))
    assert isinstance(row_ids(SinkColumns(present=present), scope), FreshIds)
    assert isinstance(row_ids(SinkColumns(present=present, id_columns=("a",)), scope), KeyIds)
    assert isinstance(row_ids(SinkColumns(present=present, position=PLACE), scope), PositionIds)


def test_fresh_ids_are_never_given_twice() -> None:
    rows = batch(body=[b"x"] * 50_000)
    fresh, other = FreshIds(), FreshIds()
    found = [as_set(ids.of(rows)) for ids in (fresh, fresh, fresh, other)]
    assert len(set.union(*found)) == 200_000


# -- keys ----------------------------------------------------------------------------------------------------


def test_what_ends_one_key_and_begins_the_next_is_never_in_doubt() -> None:
    rows = [("a", "bc"), ("ab", "c"), ("abc", ""), ("", "abc"), (None, "abc"), ("abc", None), (None, None), ("n", "n")]
    found = keys_of([pa.array([row[0] for row in rows], pa.string()), pa.array([row[1] for row in rows], pa.string())])
    assert len(set(found)) == len(rows)


def test_values_of_every_kind_that_may_be_a_key() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678_901)
    arrays = [
        pa.array([1, None], pa.int32()),
        pa.array([b"\x00\xff", None]),
        pa.array([True, None]),
        pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
        pa.array([date(2026, 1, 2), None]),
        pa.array([moment, None], pa.timestamp("us", "UTC")),
        pa.array([{"start": moment, "end": None}, None]),
    ]
    (first, second) = keys_of(arrays)
    assert first == b"1:12:\x00\xff4:true4:1.5010:2026-01-0216:176732304567890116:1767323045678901n"
    assert second == b"n" * 8


def test_the_width_of_a_number_does_not_matter() -> None:
    assert keys_of([pa.array([7], pa.int32())]) == keys_of([pa.array([7], pa.int64())])


def test_key_ids_do_not_depend_on_where_a_row_is() -> None:
    ids = KeyIds(IdScope("q", 1), ("product", "minute"))
    first = ids.of(batch(product=["a", "b"], minute=[1, 2], body=["x", "y"]))
    second = ids.of(batch(minute=[2, 1], product=["b", "a"]))
    assert as_list(first) == as_list(second)[::-1]


# -- places --------------------------------------------------------------------------------------------------


def test_rows_of_one_message_are_numbered_also_across_batches() -> None:
    a, b = ("T", "broker-a", 0), ("T", "broker-b", 0)
    whole = PositionIds(IdScope("q", 1), PLACE)
    rows = [(*a, 1), (*a, 2), (*a, 2), (*a, 2), (*a, 2), (*b, 2), (*b, 2), (*a, 3)]
    expected = as_list(whole.of(places(*rows)))
    assert len(set(expected)) == len(rows)
    for cut in range(len(rows) + 1):
        parts = PositionIds(IdScope("q", 1), PLACE)
        found = [one for part in (rows[:cut], rows[cut:]) if part for one in as_list(parts.of(places(*part)))]
        assert found == expected


def test_topic_broker_and_queue_count() -> None:
    rows = [("T", "broker-a", 0, 5), ("U", "broker-a", 0, 5), ("T", "broker-b", 0, 5), ("T", "broker-a", 1, 5)]
    assert len(as_set(PositionIds(IdScope("q", 1), PLACE).of(places(*rows)))) == 4


def test_the_order_of_batches_does_not_matter() -> None:
    one, two = places(("T", "a", 0, 1), ("U", "b", 1, 2)), places(("U", "b", 1, 3), ("T", "a", 0, 2))
    forth, back = PositionIds(IdScope("q"), PLACE), PositionIds(IdScope("q"), PLACE)
    assert as_set(forth.of(one)) | as_set(forth.of(two)) == as_set(back.of(two)) | as_set(back.of(one))


def test_a_row_without_a_place_has_no_id() -> None:
    rows = pa.RecordBatch.from_pydict(
        {"topic": ["T"], "broker": pa.array([None], pa.string()), "queue_id": [0], "queue_offset": [1]}
    )
    with pytest.raises(MessageIllegal, match="rows without broker"):
        PositionIds(IdScope("q"), PLACE).of(rows)
