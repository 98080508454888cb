"""The options of our own formats, checked by those who will read them. Pure: no Spark, no network."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from apogeemq.errors import ConfigError
from apogeemq.spark.options import OptionReader

_UNKNOWN: Final = re.compile(r"unknown option (\S+?)(?=;|$)(?:; did you mean \S+?\?)?")
_MAX_PROBLEMS: Final = 20
# What is enough for each reader to come to its end.
_LEAST: Final = {
    "rocketmq": {"nameServer": "127.0.0.1:9876", "subscribe": "topic"},
    "rocketmq-routes": {"nameServer": "127.0.0.1:9876"},
    "rocketmq-store": {"path": "/store"},
}
_LEAST_OF_SINK: Final = {"nameServer": "127.0.0.1:9876"}
_ROWS: Final = "rows"

DEFAULT_CONSOLE_ROWS: Final = 20
MAX_CONSOLE_ROWS: Final = 1000

Check = Callable[[Mapping[str, str]], object]


def read_problems(form: str, options: Mapping[str, str], *, is_stream: bool) -> Iterator[tuple[str, str]]:
    """The option a problem is about ("" when it is about all) and the sentence; nothing for formats of others."""
    check = _read_check(form, is_stream)
    return iter(()) if check is None else _problems(options, check, _LEAST[form])


def write_problems(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The same for what is written to a topic."""
    from apogeemq.spark.sink.write_options import read_write_options

    return _problems(options, read_write_options, _LEAST_OF_SINK)


def console_problems(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return _problems(options, console_rows, {})


def console_rows(options: Mapping[str, str]) -> int:
    """How many of an epoch are shown. ConfigError for what is wrong or unknown."""
    reader = OptionReader(options)
    rows = reader.whole(_ROWS, DEFAULT_CONSOLE_ROWS, least=1, most=MAX_CONSOLE_ROWS)
    reader.finish()
    return rows


def _read_check(form: str, is_stream: bool) -> Check | None:
    if form == "rocketmq":
        from apogeemq.spark.source.read_options import ReadOptions

        return lambda options: (
            ReadOptions.read(options).of_stream() if is_stream else ReadOptions.read(options).of_batch()
        )
    if form == "rocketmq-routes":
        from apogeemq.spark.routes.read_options import RouteOptions

        return lambda options: RouteOptions.read(options, is_stream=is_stream)
    if form == "rocketmq-store":
        from apogeemq.spark.cold.scan_options import ScanOptions

        return ScanOptions.read
    return None


def _problems(options: Mapping[str, str], check: Check, least: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What is unknown, then what is wrong or missing."""
    unknown = {key: sentence for key in options if (sentence := _unknown(key, options[key], check, least))}
    yield from unknown.items()
    yield from _known_problems({key: text for key, text in options.items() if key not in unknown}, check, least)


def _unknown(key: str, text: str, check: Check, least: Mapping[str, str]) -> str:
    """The sentence about an option that nobody asks for: a reader asks for all when the rest is good."""
    try:
        check({**least, key: text})
    except ConfigError as error:
        return next((match[0] for match in _UNKNOWN.finditer(str(error)) if match[1] == key), "")
    return ""


def _known_problems(options: Mapping[str, str], check: Check, least: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Readers stop at the first problem; what it named is left out, what it missed put in, and the rest read again."""
    left, put_in, left_out = dict(options), dict[str, str](), set[str]()
    for _ in range(_MAX_PROBLEMS):
        try:
            check({**put_in, **left})
            return
        except ConfigError as error:
            sentence = str(error)
        named = [key for key in left if _names(sentence, key)]
        missing = {key: text for key, text in least.items() if key not in put_in and _names(sentence, key)}
        # What was left out, or put in for it, may be why there is another problem now.
        if not any(_names(sentence, key) for key in left_out) and (named or missing or not (put_in or left_out)):
            yield named[0] if named else "", sentence
        if not named and not missing:
            return
        left_out.update(named)
        left = {key: text for key, text in left.items() if key not in named}
        put_in |= missing


def _names(sentence: str, key: str) -> bool:
    return re.search(rf"\b{re.escape(key)}\b", sentence, re.IGNORECASE) is not None
