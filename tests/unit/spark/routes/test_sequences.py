from __future__ import annotations

import pytest

from apogeemq.errors import ConfigError
from apogeemq.spark.routes.sequences import (
    OLDEST,
    JournalBounds,
    JournalRange,
    available_start,
    limited,
    lost,
    ranges,
    resolve,
)

BOUNDS = {"a:1": JournalBounds(3, 10), "b:1": JournalBounds(1, 1)}


def test_an_option_says_a_number_for_each_journal() -> None:
    assert resolve("startingSequence", "earliest", BOUNDS, BOUNDS) == {"a:1": 3, "b:1": 1}
    assert resolve("startingSequence", "latest", BOUNDS, BOUNDS) == {"a:1": 10, "b:1": 1}
    assert resolve("startingSequence", 7, BOUNDS, BOUNDS) == {"a:1": 7, "b:1": 7}
    assert resolve("startingSequence", (("a:1", 4), ("b:1", 1)), BOUNDS, BOUNDS) == {"a:1": 4, "b:1": 1}
    with pytest.raises(ConfigError, match="option x names c:1, which option nameServer does not"):
        resolve("x", (("c:1", 4),), BOUNDS, BOUNDS)
    with pytest.raises(ConfigError, match="option x has no number for the name server b:1"):
        resolve("x", (("a:1", 4),), BOUNDS, BOUNDS)


def test_numbers_need_no_name_server_to_answer() -> None:
    assert resolve("x", 7, {}, ["a:1", "b:1"]) == {"a:1": 7, "b:1": 7}
    assert resolve("x", (("a:1", 4), ("b:1", 1)), {}, ["a:1", "b:1"]) == {"a:1": 4, "b:1": 1}


@pytest.mark.parametrize("start", [3, 7, 10])
def test_nothing_is_lost_of_what_the_journal_has_or_will_have(start: int) -> None:
    assert lost("a:1", start, BOUNDS["a:1"]) is None
    assert available_start(start, BOUNDS["a:1"]) == start


def test_a_journal_that_was_cut_has_lost_events() -> None:
    problem = lost("a:1", 1, BOUNDS["a:1"])
    assert problem is not None and "the events 1 to 2 are gone" in problem
    assert available_start(1, BOUNDS["a:1"]) == 3


def test_a_journal_that_was_begun_anew_has_lost_events() -> None:
    problem = lost("a:1", 11, BOUNDS["a:1"])
    assert problem is not None and "begun anew" in problem
    assert available_start(11, BOUNDS["a:1"]) == 3


def test_a_limit_is_shared_by_the_journals() -> None:
    start, end = {"a": 1, "b": 1, "c": 5}, {"a": 101, "b": 4, "c": 5}
    assert limited(start, end, None) == end
    assert limited(start, end, 1000) == end
    assert limited(start, end, 10) == {"a": 8, "b": 4, "c": 5}  # b has only three, a takes what is left
    assert limited(start, end, 1) == {"a": 1, "b": 2, "c": 5}
    shared = limited({"a": 1, "b": 1}, {"a": 101, "b": 101}, 11)
    assert sorted(shared.values()) == [6, 7]


def test_ranges_lie_between_two_places() -> None:
    assert ranges({"a": 1, "b": 5}, {"a": 4, "b": 5}) == [JournalRange("a", 1, 4)]
    assert ranges({}, {"new": 4}) == [JournalRange("new", OLDEST, 4)]
    assert ranges({"anew": 90}, {"anew": 4}) == [JournalRange("anew", OLDEST, 4)]
    assert ranges({"gone": 5}, {}) == []
