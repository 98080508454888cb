"""Options of Spark: what each kind takes, and what errors say."""

from __future__ import annotations

import pytest

from apogeemq.errors import ConfigError
from apogeemq.spark.options import OptionReader


def test_names_have_no_case() -> None:
    options = OptionReader({"NameSERVER": " a:1 "})
    assert options.text("nameServer", None) == "a:1"
    options.finish()


def test_what_is_absent_or_empty_is_the_default() -> None:
    options = OptionReader({"a": "  "})
    assert options.text("a", "x") == "x"
    assert not options.has("a")
    assert options.whole("b", None) is None
    assert options.flag("c", True) is True
    assert options.json("d", "something") is None
    assert options.names("e", ("f",)) == ("f",)
    assert options.duration_ms("g", 7) == 7
    assert options.time_ms("h", None) is None
    assert options.choice("i", ("x",), "x") == "x"


def test_a_required_option_says_what_it_is_for() -> None:
    with pytest.raises(ConfigError, match="option nameServer is missing: an address"):
        OptionReader({}).required("nameServer", "an address")


@pytest.mark.parametrize("text", ["1.5", "x", "-1", "11", "1_0", "9" * 30, "٣"])
def test_whole_numbers_have_bounds(text: str) -> None:
    with pytest.raises(ConfigError, match=r"option n is .*: expected a whole number from 0 to 10"):
        OptionReader({"n": text}).whole("n", None, most=10)


def test_numbers() -> None:
    assert OptionReader({"n": "+7"}).whole("n", None) == 7


def test_flags_and_choices() -> None:
    options = OptionReader({"yes": "TRUE", "no": "false", "maybe": "1", "way": "ZLIB"})
    assert (options.flag("yes", False), options.flag("no", True)) == (True, False)
    with pytest.raises(ConfigError, match="option maybe is '1': expected true or false"):
        options.flag("maybe", False)
    assert options.choice("way", ("zlib", "lz4"), None) == "zlib"
    with pytest.raises(ConfigError, match="option way is 'ZLIB': expected one of lz4, zstd"):
        options.choice("way", ("lz4", "zstd"), None)


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [("15m", 900_000), ("500ms", 500), ("30 s", 30_000), ("2 hours", 7_200_000), ("1D", 86_400_000), ("250", 250)],
)
def test_durations(text: str, expected_ms: int) -> None:
    assert OptionReader({"d": text}).duration_ms("d", None) == expected_ms


@pytest.mark.parametrize("text", ["m", "-1s", "1 fortnight", "1.5h"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ConfigError, match=r"option d is .* expected a duration such as"):
        OptionReader({"d": text}).duration_ms("d", None)


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("1767225600000", 1_767_225_600_000),
        ("2026-01-01T00:00:00Z", 1_767_225_600_000),
        ("2026-01-01T01:00:00.5+01:00", 1_767_225_600_500),
    ],
)
def test_times(text: str, expected_ms: int) -> None:
    assert OptionReader({"t": text}).time_ms("t", None) == expected_ms


@pytest.mark.parametrize("text", ["-5", "yesterday", "2026-01-01T00:00:00", "1900-01-01T00:00:00Z", "9" * 18])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ConfigError, match=r"option t is .* expected milliseconds since 1970, or a time with its zone"):
        OptionReader({"t": text}).time_ms("t", None)


def test_lists_of_names() -> None:
    assert OptionReader({"l": "a, b,,a"}).names("l", None) == ("a", "b")
    with pytest.raises(ConfigError, match="expected names"):
        OptionReader({"l": ",,"}).names("l", None)


@pytest.mark.parametrize("text", ["[1]", "{", "7", '{"a": 1, "a": 2}', "[" * 100_000])
def test_what_is_no_json_object(text: str) -> None:
    with pytest.raises(ConfigError, match=r"option j is .*: expected a thing"):
        OptionReader({"j": text}).json("j", "a thing")


def test_every_unknown_option_is_named_with_the_nearest() -> None:
    options = OptionReader({"nameserver": "a", "namServer": "b", "zzz": "c", "subscribePatern": "d"})
    options.text("nameServer", "")
    options.text("subscribePattern", "")
    with pytest.raises(ConfigError) as raised:
        options.finish()
    text = str(raised.value)
    assert "unknown option namServer; did you mean nameServer?" in text
    assert "unknown option subscribePatern; did you mean subscribePattern?" in text
    assert "unknown option zzz" in text
    assert "unknown option nameserver" not in text


def test_options_that_spark_adds_are_its_own() -> None:
    OptionReader({"checkpointLocation": "/c", "queryName": "q"}).finish()


def test_long_values_are_cut_in_errors() -> None:
    with pytest.raises(ConfigError) as raised:
        OptionReader({"n": "x" * 10_000}).whole("n", None)
    assert len(str(raised.value)) < 400
