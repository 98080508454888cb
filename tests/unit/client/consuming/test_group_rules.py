"""Names of groups, and the words members describe themselves with."""

from __future__ import annotations

import pytest

from apogeemq.client.consuming.group_rules import checked_group, from_where, message_model
from apogeemq.errors import ConfigError


def test_names() -> None:
    assert checked_group("billing-1_%|a") == "billing-1_%|a"
    for group, problem in (("DEFAULT_CONSUMER", "reserved"), ("", "blank"), ("a b", "illegal"), ("x" * 121, "longer")):
        with pytest.raises(ConfigError, match=problem):
            checked_group(group)


@pytest.mark.parametrize(
    ("start", "word"),
    [
        ("last", "CONSUME_FROM_LAST_OFFSET"),
        ("first", "CONSUME_FROM_FIRST_OFFSET"),
        (1_700_000_000_000, "CONSUME_FROM_TIMESTAMP"),
    ],
)
def test_where_a_group_begins(start: str | int, word: str) -> None:
    assert from_where(start) == word


def test_models() -> None:
    assert message_model(is_broadcasting=True) == "BROADCASTING"
    assert message_model(is_broadcasting=False) == "CLUSTERING"
