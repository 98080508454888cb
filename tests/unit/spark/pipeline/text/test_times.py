"""Moments as people write them."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone

import pytest

from apogeemq.errors import ConfigError
from apogeemq.spark.pipeline.text.times import moment_ms

NOW = 1_767_225_600_000 + 86_400_000  # 2026-01-02T00:00Z


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-01-01", 1_767_225_600_000),
        ("2026-01-01T00:00", 1_767_225_600_000),
        ("2026-01-01T00:00:00Z", 1_767_225_600_000),
        ("2026-01-01T02:00:00.5+02:00", 1_767_225_600_500),
        ("1767225600000", 1_767_225_600_000),
        ("2h", NOW - 7_200_000),
        (" 30 minutes ", NOW - 1_800_000),
        ("1d ago", NOW - 86_400_000),
    ],
)
def test_good(text: str, ms: int) -> None:
    assert moment_ms(text, NOW, UTC) == ms


def test_a_time_without_a_zone_is_in_the_given_one() -> None:
    assert moment_ms("2026-01-01T00:00", NOW, timezone(timedelta(hours=1))) == 1_767_225_600_000 - 3_600_000


@pytest.mark.parametrize("text", ["", "yesterday", "2h3", "12:00", "2026-13-01", "5 parsecs", "2h later", "12"])
def test_bad(text: str) -> None:
    with pytest.raises(ConfigError, match="expected a date and time such as"):
        moment_ms(text, NOW, UTC)


def test_seconds_are_not_taken_for_milliseconds() -> None:
    with pytest.raises(ConfigError, match=r"1763490000 looks like seconds; .* such as 1763490000000"):
        moment_ms("1763490000", NOW, UTC)


@pytest.mark.parametrize(
    "text",
    [
        *("2027-01-01", "1969-01-01", "99999999999999999", "99999d", "9" * 5000),
        *("0001-01-01", "0001-01-01T00:00+23:59", "9999-12-31T23:59:59-23:59"),
    ],
)
def test_out_of_bounds(text: str) -> None:
    with pytest.raises(ConfigError, match="is in the future, or before 1970"):
        moment_ms(text, NOW, UTC)
