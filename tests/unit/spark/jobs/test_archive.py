"""Which files are of hours that are over, and how many a compaction makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from apogeemq.spark.jobs.archive import _file_counts, is_closed

HOUR_END_MS = 1_794_812_400_000  # 2026-11-16T07:00:00Z


@pytest.mark.parametrize(
    ("name", "before_ms", "expected"),
    [
        ("topic=orders/date=2026-11-16/hour=06/a.parquet", HOUR_END_MS, True),
        ("topic=orders/date=2026-11-16/hour=06/a.parquet", HOUR_END_MS - 1, False),
        ("topic=%25RETRY%25g/date=2026-11-15/hour=23/a.parquet", HOUR_END_MS, True),
        ("topic=orders/date=2026-11-16/hour=07/a.parquet", HOUR_END_MS, False),
        ("topic=orders/a.parquet", HOUR_END_MS, False),
        ("topic=orders/date=__HIVE_DEFAULT_PARTITION__/hour=06/a.parquet", HOUR_END_MS, False),
    ],
)
def test_an_hour_is_closed_when_it_has_ended(name: str, before_ms: int, expected: bool) -> None:
    assert is_closed(name, before_ms) is expected


def test_files_of_an_hour_have_about_the_wanted_size(tmp_path: Path) -> None:
    sizes = {"topic=a/date=d/hour=01/x": 10, "topic=a/date=d/hour=01/y": 15, "topic=%25b/date=d/hour=02/x": 3}
    for name, size in sizes.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))
    counts = _file_counts(tmp_path, [tmp_path / name for name in sizes], 10)
    assert counts == {("a", "d", "01"): 3, ("%b", "d", "02"): 1}
