"""Typed reading of one table of a pipeline file: what cannot be read is noted, and reading goes on. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from typing import Any, TypeVar

from apogeemq.errors import ConfigError
from apogeemq.spark.options import OptionReader
from apogeemq.spark.pipeline.text.parameters import as_text
from apogeemq.spark.pipeline.text.problems import Path, Problems, hint, only_near

DefaultT = TypeVar("DefaultT")
EnumT = TypeVar("EnumT", bound=StrEnum)


class TableReader:
    """Ask for each key by name, then `finish`: a key nobody asked for is a problem that names the nearest known one."""

    def __init__(self, table: dict[str, Any], path: Path, problems: Problems) -> None:
        self._table = table
        self._path = path
        self._problems = problems
        self._known: list[str] = []

    @property
    def line(self) -> int:
        return self._problems.line_of(self._path)

    def has(self, key: str) -> bool:
        return key in self._table

    def is_empty(self, key: str) -> bool:
        """Not there, or a text of nothing, as a parameter may be."""
        value = self._table.get(key)
        return value is None or (isinstance(value, str) and not value.strip())

    def wrong(self, key: str, sentence: str) -> None:
        path = (*self._path, key) if key else self._path
        self._problems.add(path, f"{'.'.join(path)}: {sentence}")

    def text(self, key: str, default: str = "") -> str:
        value = self._take(key)
        if value is None:
            return default
        if not isinstance(value, str):
            return self._expected(key, value, "a text", default)
        return value.strip()

    def required(self, key: str, what_for: str) -> str:
        text = self.text(key)
        if not text and (not self.has(key) or isinstance(self._table[key], str)):
            self._problems.add(self._path, f"{'.'.join(self._path)}: {key} is missing: {what_for}")
        return text

    def flag(self, key: str, default: bool) -> bool:
        value = self._take(key)
        if value is None:
            return default
        if isinstance(value, str) and value.strip().lower() in ("true", "false"):
            return value.strip().lower() == "true"
        return value if isinstance(value, bool) else self._expected(key, value, "true or false", default)

    def whole(self, key: str, default: int, *, most: int) -> int:
        value = self._take(key)
        if value is None:
            return default
        number = int(value) if isinstance(value, str) and value.strip().isdecimal() else value
        if isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= most:
            return number
        return self._expected(key, value, f"a whole number from 0 to {most}", default)

    def duration_ms(self, key: str, default: int) -> int:
        """With its unit: a number alone is more often a slip than milliseconds."""
        text = self.text(key)
        if not text:
            return default
        with suppress(ConfigError):
            if not text.isdecimal():
                return OptionReader({key: text}).duration_ms(key, default)
        return self._expected(key, text, "a duration such as 500ms, 30 seconds, 15m, 2h or 1d", default)

    def choice(self, key: str, choices: type[EnumT], default: EnumT) -> EnumT:
        text = self.text(key)
        if not text:
            return default
        try:
            return choices(text.lower())
        except ValueError:
            self.wrong(key, f"{text!r} is not one of {', '.join(choices)}{only_near(text, choices)}")
            return default

    def names(self, key: str) -> tuple[str, ...]:
        """A text or a list of texts; an empty text, as a parameter may be, is no name."""
        value = self._take(key)
        if value is None or value == "":
            return ()
        words = [value] if isinstance(value, str) else value
        if not isinstance(words, list) or not all(isinstance(word, str) and word.strip() for word in words):
            return self._expected(key, value, "a text or a list of texts", ())
        stripped = [word.strip() for word in words]
        for word in sorted({word for word in stripped if stripped.count(word) > 1}):
            self.wrong(key, f"{word} is named twice")
        return tuple(stripped)

    def options(self, key: str) -> dict[str, str]:
        """A table of plain values, as texts; lists become comma lists, tables JSON."""
        table = self.raw_options(key)
        return {name: _option_text(value) for name, value in table.items()}

    def raw_options(self, key: str) -> dict[str, Any]:
        value = self._take(key)
        if value is None:
            return {}
        return value if isinstance(value, dict) else self._expected(key, value, "a table", {})

    def take(self, key: str) -> Any:
        """Whatever is there."""
        return self._take(key)

    def table(self, key: str) -> TableReader | None:
        value = self._take(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            return self._expected(key, value, "a table", None)
        return TableReader(value, (*self._path, key), self._problems)

    def tables(self, key: str) -> Iterator[tuple[str, TableReader]]:
        """The tables in a table, by their names."""
        group = self.table(key)
        if group is None:
            return
        for name in group._table:
            one = group.table(name)
            if one is not None:
                yield name, one

    def finish(self) -> None:
        for key in self._table:
            if key not in self._known:
                where = f"[{'.'.join(self._path)}]" if self._path else "the file"
                self._problems.add((*self._path, key), f"unknown key {key} in {where}{hint(key, self._known)}")

    def _take(self, key: str) -> Any:
        self._known.append(key)
        return self._table.get(key)

    def _expected(self, key: str, value: object, what: str, default: DefaultT) -> DefaultT:
        self.wrong(key, f"{value!r}: expected {what}")
        return default


def _option_text(value: object) -> str:
    if isinstance(value, list) and all(isinstance(item, str | int) for item in value):
        return ",".join(as_text(item) for item in value)
    if isinstance(value, dict | list):
        return json.dumps(value, default=str)
    return as_text(value)
