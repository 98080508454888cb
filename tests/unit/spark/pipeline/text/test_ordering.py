"""Steps after what they read."""

from __future__ import annotations

import pytest

from apogeemq.spark.pipeline.text.ordering import Cycle, ordered


def test_the_given_order_is_kept_where_it_can_be() -> None:
    assert ordered({"c": ["a"], "a": [], "b": []}) == ["a", "c", "b"]


def test_a_cycle_is_named_once_around() -> None:
    with pytest.raises(Cycle) as raised:
        ordered({"x": ["a"], "a": ["b"], "b": ["c"], "c": ["a"]})
    assert raised.value.names == ["a", "b", "c", "a"]


def test_a_step_that_reads_itself() -> None:
    with pytest.raises(Cycle) as raised:
        ordered({"a": ["a"]})
    assert raised.value.names == ["a", "a"]
