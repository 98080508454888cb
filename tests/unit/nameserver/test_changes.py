"""Outcomes add up."""

from __future__ import annotations

from apogeemq.nameserver.changes import BROKER_LEFT, Change, MinIdNotice, Outcome


def test_merged_outcome_holds_the_work_of_both() -> None:
    notice = MinIdNotice(["a:1"], 1, "a:1", None, None)
    first = Outcome([Change(BROKER_LEFT, "x", "c", "b")], {"T"}, [], [1])
    first.merge(Outcome([Change(BROKER_LEFT, "y", "c", "b")], {"T", "U"}, [notice], [2]))
    assert [change.cause for change in first.changes] == ["x", "y"]
    assert (first.topics, first.notices, first.connections_to_close) == ({"T", "U"}, [notice], [1, 2])


def test_outcomes_share_nothing() -> None:
    Outcome().topics.add("T")
    assert Outcome() == Outcome([], set(), [], [])
