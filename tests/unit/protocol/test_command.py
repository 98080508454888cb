"""What a decoded frame says of itself."""

from __future__ import annotations

from typing import Any

import pytest

from apogeemq.protocol import versions
from apogeemq.protocol.command import LANGUAGES, Command, field_text


@pytest.mark.parametrize(
    ("flag", "is_response", "is_one_way"), [(0, 0, 0), (1, 1, 0), (2, 0, 1), (3, 1, 1), (-4, 0, 0)]
)
def test_the_two_bits_of_the_flag(flag: int, is_response: int, is_one_way: int) -> None:
    command = Command(code=1, flag=flag)
    assert (command.is_response, command.is_one_way) == (bool(is_response), bool(is_one_way))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "x"),
        ("", ""),
        (True, "true"),
        (False, "false"),
        (-5, "-5"),
        (1.5, "1.5"),
        ([1, "a"], '[1,"a"]'),
        (None, "null"),
    ],
)
def test_values_as_java_writes_them_into_fields(value: Any, text: str) -> None:
    assert field_text(value) == text


def test_the_language_numbers_of_apache() -> None:
    assert [LANGUAGES.index(name) for name in ("JAVA", "CPP", "PYTHON", "OTHER", "GO", "RUST", "NODE_JS")] == [
        *(0, 1, 3, 7, 9, 12, 13)
    ]


def test_version_numbers_follow_apaches_enum() -> None:
    def ordinal(major: int, minor: int, patch: int) -> int:
        return {4: 213, 5: 413}[major] + 20 * minor + 2 * patch

    assert ordinal(4, 9, 4) == versions.V4_9_4
    assert ordinal(5, 0, 0) == versions.V5_0_0
    assert ordinal(5, 5, 0) == versions.V5_5_0
