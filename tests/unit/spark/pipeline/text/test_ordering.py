"""Names after those they refer to."""

from __future__ import annotations

from apogeemq.spark.pipeline.text.ordering import Order, ordered


def test_the_given_order_is_kept_where_it_can_be() -> None:
    assert ordered({"c": ["a"], "a": [], "b": []}) == Order(["a", "c", "b"], [])


def test_a_circle_is_named_once_around() -> None:
    assert ordered({"x": ["a"], "a": ["b"], "b": ["c"], "c": ["a"]}).circles == [["a", "b", "c", "a"]]


def test_all_circles_are_named() -> None:
    found = ordered({"a": ["a"], "b": ["c", "d"], "c": ["b"], "d": ["b"], "e": ["b"]})
    assert found.circles == [["a", "a"], ["b", "c", "b"], ["b", "d", "b"]]
    assert sorted(found.names) == ["a", "b", "c", "d", "e"]


def test_a_long_way() -> None:
    count = 5_000
    found = ordered({str(number): [str(number + 1)] if number < count else [] for number in range(count + 1)})
    assert found == Order([str(number) for number in range(count, -1, -1)], [])
