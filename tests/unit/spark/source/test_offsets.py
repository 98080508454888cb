"""Offsets as JSON, in checkpoints and options."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apogeemq.errors import ConfigError
from apogeemq.model.queues import MessageQueue
from apogeemq.spark.source.offsets import QueueNumbers, from_json, named, to_json

QUEUES = st.builds(MessageQueue, st.text(max_size=5), st.integers(0, 2**31 - 1), st.text(max_size=5))
OFFSETS = st.dictionaries(QUEUES, st.integers(0, 2**63 - 1))


@given(OFFSETS)
def test_offsets_come_back(offsets: dict[MessageQueue, int]) -> None:
    assert from_json(json.loads(json.dumps(to_json(offsets)))) == offsets


@given(OFFSETS)
def test_the_same_offsets_are_the_same_text(offsets: dict[MessageQueue, int]) -> None:
    """Spark takes another text for new data."""
    reordered = dict(reversed(offsets.items()))
    assert json.dumps(to_json(offsets)) == json.dumps(to_json(reordered))


def test_queues_are_in_the_order_of_numbers() -> None:
    offsets = {MessageQueue("b", number, "T"): 1 for number in (10, 9, 0)}
    assert list(to_json(offsets)["T"]["b"]) == ["0", "9", "10"]


@pytest.mark.parametrize(
    "found",
    [
        [],
        None,
        {"T": 1},
        {"T": {"b": 1}},
        {"T": {"b": {"x": 1}}},
        {"T": {"b": {"-1": 1}}},
        {"T": {"b": {"0": -1}}},
        {"T": {"b": {"0": "1"}}},
        {"T": {"b": {"0": True}}},
        {"T": {"b": {"0": 2**63}}},
        {"T": {"b": {str(2**31): 1}}},
    ],
)
def test_a_checkpoint_of_something_else_is_refused(found: object) -> None:
    with pytest.raises(ConfigError, match="not of this source"):
        from_json(found)


def test_queues_are_named_in_errors() -> None:
    queues = [MessageQueue("b", number, "T") for number in range(7)]
    assert named(queues[:1]) == "queue 0 of topic T on b"
    assert named(queues).endswith("and 2 more")


# -- numbers that somebody wrote down ------------------------------------------------------------------------


def anything(place: tuple[str, ...], value: int) -> None:
    """No number is wrong."""


def test_a_number_is_for_a_topic_a_broker_or_a_queue() -> None:
    numbers = QueueNumbers.read({"A": -2, "B": {"b": -1, "c": {"0": 17, "01": 18}}}, anything)
    assert numbers.of(MessageQueue("any", 3, "A")) == -2
    assert numbers.of(MessageQueue("b", 3, "B")) == -1
    assert numbers.of(MessageQueue("c", 0, "B")) == 17
    assert numbers.of(MessageQueue("c", 1, "B")) == 18
    assert numbers.of(MessageQueue("c", 2, "B")) is None
    assert numbers.of(MessageQueue("b", 0, "C")) is None
    assert numbers.topics == {"A", "B"}


def test_places_of_no_queue_are_found() -> None:
    numbers = QueueNumbers.read({"A": -2, "B": {"b": {"0": 1, "7": 1}}}, anything)
    assert numbers.unused([MessageQueue("b", 0, "B")]) == ["A", "B → b → 7"]


@pytest.mark.parametrize("value", ["x", 1.5, None, True, [], {"b": {"0": {"1": 2}}}, {"b": {"x": 1}}])
def test_what_is_no_number_says_where(value: object) -> None:
    with pytest.raises(ValueError, match="expected"):
        QueueNumbers.read({"T": value}, anything)
