"""Java's hash of strings."""

from __future__ import annotations

import pytest

from apogeemq.filter.tags import java_hash


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("TagA", 2598919),
        ("TagB", 2598920),
        ("polygenelubricants", -(2**31)),
        ("中文", 646394),
        ("😀", 1772899),
    ],
)
def test_hash_is_javas(text: str, value: int) -> None:
    assert java_hash(text) == value
