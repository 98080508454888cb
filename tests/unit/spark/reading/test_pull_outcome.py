"""What answers to pulls mean for whoever wants every message."""

from __future__ import annotations

import pytest

from apogeemq.client import PullStatus, RawPullResult
from apogeemq.errors import ProtocolError
from apogeemq.spark.reading.pull_outcome import NotThere, Outcome, outcome_of


def outcome(
    status: PullStatus, following: int, least: int = 0, end: int = 100, *, is_filtered: bool = False
) -> Outcome:
    return outcome_of(10, RawPullResult(status, b"", following, least, end), is_filtered=is_filtered)


def test_messages() -> None:
    assert outcome(PullStatus.FOUND, 42) == Outcome(42)


@pytest.mark.parametrize("following", [10, 9, 0])
def test_messages_that_lead_back_would_never_end(following: int) -> None:
    with pytest.raises(ProtocolError, match=f"a pull at 10 .* go on at {following}"):
        outcome(PullStatus.FOUND, following)


def test_nothing_that_matches_is_no_loss_with_a_filter_only() -> None:
    assert outcome(PullStatus.NO_MATCHED_MSG, 42, is_filtered=True) == Outcome(42)
    assert outcome(PullStatus.NO_MATCHED_MSG, 42) == Outcome(42, "the broker passed over them")


def test_what_has_expired_is_lost() -> None:
    for is_filtered in (True, False):
        found = outcome(PullStatus.OFFSET_ILLEGAL, 30, 30, is_filtered=is_filtered)
        assert found == Outcome(30, "they have expired; the oldest that is left is 30")


@pytest.mark.parametrize("status", [PullStatus.OFFSET_ILLEGAL, PullStatus.NO_NEW_MSG])
@pytest.mark.parametrize("end", [0, 5, 10])
def test_a_queue_that_ends_before_may_catch_up(status: PullStatus, end: int) -> None:
    with pytest.raises(NotThere, match=f"the queue ends at {end}") as failure:
        outcome(status, end, 0, end)
    assert (failure.value.retriable, failure.value.next_offset) == (True, None)


@pytest.mark.parametrize(
    ("status", "following", "go_on_at"),
    [
        (PullStatus.OFFSET_ILLEGAL, 3, None),  # the group was reset to there
        (PullStatus.OFFSET_ILLEGAL, 50, 50),
        (PullStatus.NO_NEW_MSG, 10, None),
        (PullStatus.NO_NEW_MSG, 99, 99),  # the queue has no file there
        (PullStatus.NO_MATCHED_MSG, 10, None),
    ],
)
def test_what_a_broker_has_but_does_not_find(status: PullStatus, following: int, go_on_at: int | None) -> None:
    with pytest.raises(NotThere, match="does not find what it has at 10") as failure:
        outcome(status, following)
    assert failure.value.next_offset == go_on_at
