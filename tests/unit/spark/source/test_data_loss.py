"""What is left of ranges when queues are not what they were."""

from __future__ import annotations

import logging
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apogeemq.errors import DataLost
from apogeemq.spark.source.data_loss import LossRule, still_there, within
from apogeemq.spark.source.ranges import OffsetRange

OFFSET = st.integers(0, 100)


def wanted(start: int, end: int) -> OffsetRange:
    return OffsetRange("T", "broker-a", 3, start, end)


@given(OFFSET, OFFSET, OFFSET)
def test_what_is_left_is_there_and_what_is_not_is_told(start: int, end: int, least: int) -> None:
    left, loss = still_there(wanted(start, end), least)
    assert left.start <= left.end == end
    if start <= end:
        assert set(range(start, end)) - set(range(least)) == set(range(left.start, left.end))
        assert (loss is not None) == bool(set(range(start, end)) & set(range(least)))
    else:
        assert loss is not None
        assert left.start == min(least, end)


@given(OFFSET, OFFSET, OFFSET, OFFSET)
def test_what_somebody_wrote_down_is_held_against_what_there_is(start: int, end: int, least: int, top: int) -> None:
    least, top = sorted((least, top))
    start, end = sorted((start, end))
    left, loss = within(wanted(start, end), least, top)
    assert set(range(left.start, left.end)) == set(range(start, end)) & set(range(least, top))
    assert (loss is not None) == (end > top or bool(set(range(start, end)) & set(range(least))))


def test_a_start_beyond_the_end_is_a_loss() -> None:
    left, loss = within(wanted(500, 10), 0, 10)
    assert left.size == 0
    assert str(loss) == "messages 10 to 499 of topic T, broker broker-a, queue 3 are lost: the queue ends at 10"


def test_the_error_names_everything() -> None:
    _, loss = still_there(wanted(5, 50), 20)
    assert str(loss) == (
        "messages 5 to 19 of topic T, broker broker-a, queue 3 are lost: "
        "they have expired; the oldest that is left is 20"
    )
    assert (
        str(DataLost("T", "b", 0, 5, None, "gone")) == "messages from 5 on of topic T, broker b, queue 0 are lost: gone"
    )


def test_the_error_travels() -> None:
    loss = DataLost("T", "b", 0, 5, 9, "gone")
    back = pickle.loads(pickle.dumps(loss))
    assert (str(back), back.end) == (str(loss), 9)


def test_the_rule(caplog: pytest.LogCaptureFixture) -> None:
    loss = DataLost("T", "b", 0, 5, 9, "gone")
    LossRule(True).report(None)
    with pytest.raises(DataLost, match="messages 5 to 8"):
        LossRule(True).report(loss)
    with caplog.at_level(logging.WARNING):
        LossRule(False).report(loss)
    assert "messages 5 to 8 of topic T, broker b, queue 0 are lost" in caplog.text
