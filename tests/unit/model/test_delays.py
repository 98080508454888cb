"""Delay levels from their text."""

from __future__ import annotations

import pytest

from apogeemq.model.delays import DelayLevels, level_of


def test_there_are_eighteen_levels_unless_said_otherwise() -> None:
    levels = DelayLevels()
    assert levels.max_level == 18
    assert [levels.delay_ms(level) for level in (1, 2, 5, 14, 18)] == [1000, 5000, 60_000, 600_000, 7_200_000]


def test_a_level_beyond_the_last_is_the_last() -> None:
    assert DelayLevels("1s 1d").delay_ms(99) == 86_400_000


@pytest.mark.parametrize("text", ["", "1", "s", "1w", "1s,2s", "1s -2s", "1.5s"])
def test_what_is_no_delay_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="expected delays like"):
        DelayLevels(text)


@pytest.mark.parametrize(("text", "level"), [(None, 0), ("", 0), ("3", 3), ("-1", -1), ("x", 0)])
def test_a_property_says_a_level_or_nothing(text: str | None, level: int) -> None:
    assert level_of(text) == level
