"""The options of our own formats, checked by those who will read them. Pure: no Spark, no network."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from apogeemq.errors import ConfigError

_UNKNOWN: Final = re.compile(r"unknown option (\S+?)(?=;|$)(?:; did you mean \S+?\?)?")
_MAX_PROBLEMS: Final = 20

Check = Callable[[Mapping[str, str]], object]


def read_problems(form: str, options: Mapping[str, str], *, is_stream: bool) -> Iterator[tuple[str, str]]:
    """The option a problem is about ("" when it is about all) and the sentence; nothing for formats of others."""
    check = _read_check(form, is_stream)
    return iter(()) if check is None else _problems(options, check)


def write_problems(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The same for what is written to a topic."""
    from apogeemq.spark.sink.write_options import read_write_options

    return _problems(options, read_write_options)


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


def _problems(options: Mapping[str, str], check: Check) -> Iterator[tuple[str, str]]:
    """Readers stop at the first problem; what it named is left out and the rest is read again."""
    left = dict(options)
    for attempt in range(_MAX_PROBLEMS):
        try:
            check(left)
            return
        except ConfigError as error:
            unknown = {match[1]: match[0] for match in _UNKNOWN.finditer(str(error))}
            named = unknown or {key: str(error) for key in left if _names(str(error), key)}
            if named:
                yield from unknown.items() if unknown else [next(iter(named.items()))]
            elif attempt == 0:  # later ones may be about what has been left out
                yield "", str(error)
            left = {key: value for key, value in left.items() if key not in named}
            if not named:
                return


def _names(sentence: str, key: str) -> bool:
    return re.search(rf"\b{re.escape(key)}\b", sentence, re.IGNORECASE) is not None
