"""Java's hash of strings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apogeemq.filter.tags import POWERS, java_hash, unsigned_java_hash, utf16_units


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


def unit_by_unit(text: str) -> int:
    value = 0
    for unit in utf16_units(text):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


@given(st.text(st.characters()) | st.text("ab", min_size=200, max_size=600))
def test_any_text_is_hashed_as_unit_by_unit(text: str) -> None:
    assert java_hash(text) == unit_by_unit(text)


@given(st.text(max_size=50), st.text(max_size=50))
def test_the_hash_of_two_texts_together_comes_from_both(first: str, second: str) -> None:
    power = POWERS[len(utf16_units(second))]
    assert (
        unsigned_java_hash(first + second) == (unsigned_java_hash(first) * power + unsigned_java_hash(second)) % 2**32
    )
