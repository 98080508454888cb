"""On which line of a TOML text each table and key stands: the standard library's parser keeps no places.

The text has been parsed before, so this only has to find its way through it, not to judge it. Pure.
"""

from __future__ import annotations

import re
from typing import Final

Path = tuple[str, ...]

_BLANK: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE: Final = re.compile(r"[ \t]*")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPED: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_STRING: Final = re.compile(
    r'"""(?:\\[\s\S]|[^\\])*?"{3,5}'
    r"|'''[\s\S]*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
)
_PLAIN_VALUE: Final = re.compile(r"[^,\]}#\n]*")


def line_index(text: str) -> dict[Path, int]:
    """Lines, from 1, of every table and key by its path; of what is there several times, the first."""
    return _Scanner(text).run()


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._lines: dict[Path, int] = {}

    def run(self) -> dict[Path, int]:
        prefix: Path = ()
        while self._skip(_BLANK):
            start = self._at
            if self._text[start] == "[":
                self._at += 2 if self._text.startswith("[[", start) else 1
                prefix = self._key((), start)
                self._at = self._until_line_end()
            else:
                self._assignment(prefix)
            if self._at == start:  # not TOML after all
                break
        return self._lines

    def _assignment(self, prefix: Path) -> None:
        path = self._key(prefix, self._at)
        self._skip(_SPACE)
        self._at += 1  # the equals sign
        self._value(path)

    def _key(self, prefix: Path, start: int) -> Path:
        """Read a dotted key; every part of it has the line of `start`."""
        line = self._text.count("\n", 0, start) + 1
        path = prefix
        while True:
            self._skip(_SPACE)
            path = (*path, self._key_part())
            self._lines.setdefault(path, line)
            self._skip(_SPACE)
            if not self._text.startswith(".", self._at):
                return path
            self._at += 1

    def _key_part(self) -> str:
        quoted = _STRING.match(self._text, self._at)
        if quoted is not None:
            self._at = quoted.end()
            inner = quoted[0][1:-1]
            return inner if quoted[0][0] == "'" else _ESCAPED.sub(_unescaped, inner)
        bare = _BARE_KEY.match(self._text, self._at)
        self._at = bare.end() if bare is not None else self._at
        return bare[0] if bare is not None else ""

    def _value(self, path: Path) -> None:
        if not self._skip(_SPACE):
            return
        string = _STRING.match(self._text, self._at)
        if string is not None:
            self._at = string.end()
        elif self._text[self._at] == "[":
            self._items(path, "]")
        elif self._text[self._at] == "{":
            self._items(path, "}")
        else:
            self._skip(_PLAIN_VALUE)

    def _items(self, path: Path, end: str) -> None:
        """What stands between brackets: values, or assignments."""
        self._at += 1
        while self._skip(_BLANK) and self._text[self._at] != end:
            start = self._at
            if self._text[start] == ",":
                self._at += 1
            elif end == "}":
                self._assignment(path)
            else:
                self._value(path)
            if self._at == start:
                return
        self._at += 1

    def _skip(self, pattern: re.Pattern[str]) -> bool:
        """Whether there is text left."""
        match = pattern.match(self._text, self._at)
        self._at = match.end() if match is not None else self._at
        return self._at < len(self._text)

    def _until_line_end(self) -> int:
        end = self._text.find("\n", self._at)
        return len(self._text) if end < 0 else end


def _unescaped(match: re.Match[str]) -> str:
    digits = match[1] or match[2]
    return chr(int(digits, 16)) if digits else match[3]
