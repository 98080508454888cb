"""Properties text into a typed struct and back."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest

from apogeemq.errors import ConfigError
from apogeemq.runtime.config import (
    apply,
    edit_properties,
    known_keys,
    load,
    parse_properties,
    to_mapping,
    to_properties,
)


class Sample(msgspec.Struct, rename="camel"):
    broker_name: str = "a"
    is_open: bool = False
    plain_number: int = 7
    listen_port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 9_876


def test_defaults_hold_where_nothing_is_given() -> None:
    assert load(Sample, {}) == (Sample(), [])


@pytest.mark.parametrize(
    ("key", "text", "name", "value"),
    [
        ("brokerName", " b ", "broker_name", " b "),
        ("isOpen", "true", "is_open", True),
        ("isOpen", "TRUE", "is_open", True),
        ("isOpen", " False ", "is_open", False),
        ("plainNumber", "+12", "plain_number", 12),
        ("plainNumber", " -12 ", "plain_number", -12),
        ("plainNumber", "2147483647", "plain_number", 2**31 - 1),
        ("listenPort", "0", "listen_port", 0),
    ],
)
def test_values_are_read_as_java_reads_them(key: str, text: str, name: str, value: object) -> None:
    config, warnings = load(Sample, {key: text})
    assert getattr(config, name) == value
    assert type(getattr(config, name)) is type(value)
    assert warnings == []


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("isOpen", "yes", "true or false"),
        ("isOpen", "", "true or false"),
        ("plainNumber", "1_000", "a whole number from -2147483648 to 2147483647"),
        ("plainNumber", "0x10", "a whole number"),
        ("plainNumber", "1.0", "a whole number"),
        ("plainNumber", "", "a whole number"),
        ("plainNumber", "2147483648", "a whole number"),
        ("plainNumber", "9" * 10_000, "a whole number"),
        ("plainNumber", "١٢", "a whole number"),
        ("listenPort", "65536", "a whole number from 0 to 65535"),
        ("listenPort", "-1", "a whole number from 0 to 65535"),
    ],
)
def test_wrong_type_names_key_value_and_expected_type(key: str, text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(Sample, {key: text})
    assert str(caught.value).startswith(f"{key}={text}: expected {expected}")


@pytest.mark.parametrize(
    ("key", "nearest"), [("listenport", "listenPort"), ("brokerNames", "brokerName"), ("open", "isOpen")]
)
def test_unknown_key_is_a_warning_with_the_nearest_known_one(key: str, nearest: str) -> None:
    config, warnings = load(Sample, {key: "5"})
    assert config == Sample()
    assert warnings == [f"unknown key {key} is ignored; the nearest known key is {nearest}"]


def test_apply_sets_all_or_nothing() -> None:
    config = Sample()
    with pytest.raises(ConfigError):
        apply(config, {"brokerName": "b", "listenPort": "many"})
    assert config == Sample()
    assert apply(config, {"brokerName": "b", "listenPort": "1"}) == []
    assert config == Sample(broker_name="b", listen_port=1)


def test_properties_are_sorted_and_plain() -> None:
    config = Sample(broker_name=r"C:\a=b", is_open=True)
    assert to_properties(config) == "brokerName=C:\\a=b\nisOpen=true\nlistenPort=9876\nplainNumber=7\n"
    assert to_properties(config, {"jvmFlag": "x", "isOpen": "?"}).splitlines()[1:3] == ["isOpen=true", "jvmFlag=x"]
    assert list(to_mapping(config)) == sorted(known_keys(Sample))


def test_what_is_shown_loads_again() -> None:
    config = Sample(broker_name="b", is_open=True, plain_number=-3, listen_port=0)
    assert load(Sample, parse_properties(to_properties(config))) == (config, [])


def test_parsing_follows_java() -> None:
    text = "# comment\n! another\n key = value with spaces \nlong=a,\\\n     b\nescaped=\\u00e9\\t.\ncolon:x\nempty\n"
    assert parse_properties(text) == {
        "key": "value with spaces ",
        "long": "a,b",
        "escaped": "é\t.",
        "colon": "x",
        "empty": "",
    }


def test_text_that_is_no_properties_file_is_refused() -> None:
    with pytest.raises(ConfigError, match="not a properties file"):
        parse_properties("a=\\u12")
    with pytest.raises(ConfigError, match="not a properties file"):
        edit_properties("a=\\u12", {})


def test_editing_keeps_comments_order_and_other_keys() -> None:
    before = "# why\nb=1\ntls.server.mode=enforcing\n\n# port\nlistenPort=1\n"
    after = edit_properties(before, {"listenPort": "2", "new": "a\\b"})
    assert after.startswith("# why\nb=1\ntls.server.mode=enforcing\n\n# port\nlistenPort=2\n")
    assert parse_properties(after) == {
        "b": "1",
        "tls.server.mode": "enforcing",
        "listenPort": "2",
        "new": "a\\b",
    }
    assert parse_properties(edit_properties("", {"a": "1"})) == {"a": "1"}
