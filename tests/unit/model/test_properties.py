"""The text message properties travel in."""

from __future__ import annotations

from apogeemq.model.properties import decode_properties, encode_properties


def test_properties_come_back() -> None:
    properties = {"KEYS": "a b", "TAGS": "TagA", "emoji": "😀"}
    assert decode_properties(encode_properties(properties)) == properties


def test_the_last_separator_may_be_missing() -> None:
    assert decode_properties("a\x01b\x02c\x01d") == {"a": "b", "c": "d"}


def test_entries_without_name_or_value_are_dropped_as_apache_does() -> None:
    assert decode_properties("\x01v\x02n\x01\x02loose\x02\x02a\x01b\x02") == {"a": "b"}


def test_a_value_may_hold_the_name_separator() -> None:
    assert decode_properties("a\x01b\x01c\x02") == {"a": "b\x01c"}
