"""The JSON that Java peers write and read.

Apache's bodies are written by fastjson, whose output is not always JSON: maps keyed by numbers have bare keys
(``{0:"10.0.0.1:10911"}``) and maps keyed by objects have the object itself as key (``{{"topic":"T"}:5}``).
`loads` reads bare keys and plain JSON into a type; `parse` reads the whole dialect into dictionaries and lists;
`dumps` writes it. Plain JSON is written by msgspec.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from apogeemq.errors import ProtocolError

MAX_DEPTH = 64  # real bodies nest less than ten levels
MAX_BARE_KEYS = 500_000  # a second's work; real bodies have one per queue of a static topic

ValueT = TypeVar("ValueT")

_encode = msgspec.json.Encoder().encode
_BAD_JSON = (msgspec.MsgspecError, RecursionError, ValueError)
_SPACE = re.compile(rb"[ \t\r\n]*")
_BARE = re.compile(rb"[-+.\w$]+")
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
# Strings are passed over, whatever is in them; one without an end goes to the end of the text, so that nothing is
# looked at twice and no input takes more than linear time. (Possessive quantifiers would say it, but they do not work
# in every Python 3.11.)
_STRING_OR_BARE_KEY = re.compile(
    rb"""
    "[^"\\]* (?: \\. [^"\\]* )* (?: " | \\?\Z )
    | [{,] \s* ( [-+.\w$]+ ) (?= \s* : )
    """,
    re.DOTALL | re.VERBOSE,
)
_search = _STRING_OR_BARE_KEY.search
_LITERALS: dict[bytes, Any] = {b"null": None, b"true": True, b"false": False}


class Pairs(list[tuple[Any, Any]]):
    """A map whose keys are objects, as the list of its entries."""


def loads(data: bytes, into: type[ValueT], *, is_limited: bool = True) -> ValueT:
    """Read a body, whose keys may be bare, into a type; raises ProtocolError for anything else.

    Files of our own need no limit: no stranger has written them.
    """
    try:
        return msgspec.json.decode(data, type=into, strict=False)
    except msgspec.ValidationError as error:
        raise ProtocolError(f"body: {error}") from None
    except _BAD_JSON as error:
        quoted = _quote_bare_keys(data, MAX_BARE_KEYS if is_limited else len(data))
        if len(quoted) == len(data):
            raise ProtocolError(f"body: {error}") from None
    try:
        return msgspec.json.decode(quoted, type=into, strict=False)
    except _BAD_JSON as error:
        raise ProtocolError(f"body: {error}") from None


def _quote_bare_keys(data: bytes, most: int) -> bytes:
    quoted = bytearray()
    position = looked_at = count = 0
    # One search after the other: a scanner over all of them takes ever more memory in early Python 3.11.
    while (match := _search(data, looked_at)) is not None:
        looked_at = match.end()
        start, end = match.span(1)
        if start < 0:  # a string
            continue
        count += 1
        if count > most:
            raise ProtocolError(f"body: more than {most} bare keys")
        quoted += data[position:start]
        quoted += b'"%b"' % data[start:end]
        position = end
    return bytes(quoted) + data[position:] if quoted else data


def parse(data: bytes) -> Any:
    """Read a body in any form of the dialect; maps keyed by objects become `Pairs`. Raises ProtocolError.

    Some hundred times slower than `loads`: for answers of servers we chose to ask, not for what anyone sends us.
    """
    return _Reader(data).document()


def dumps(value: Any) -> bytes:
    """Write in fastjson's default dialect: number keys bare, object keys as objects."""
    if isinstance(value, dict):
        return b"{" + b",".join(dumps(key) + b":" + dumps(item) for key, item in value.items()) + b"}"
    if isinstance(value, Pairs):
        return b"{" + b",".join(dumps(key) + b":" + dumps(item) for key, item in value) + b"}"
    if isinstance(value, list | tuple):
        return b"[" + b",".join(map(dumps, value)) + b"]"
    if isinstance(value, msgspec.Struct):
        return dumps(msgspec.to_builtins(value, str_keys=False))
    return _encode(value)


class _Reader:
    """A recursive reader of the dialect."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def document(self) -> Any:
        value = self._value(0)
        self._skip_space()
        if self._position != len(self._data):
            raise self._error("unexpected text after the value")
        return value

    def _error(self, problem: str) -> ProtocolError:
        return ProtocolError(f"body: {problem} at byte {self._position}")

    def _skip_space(self) -> None:
        match = _SPACE.match(self._data, self._position)
        assert match is not None  # the pattern matches the empty string
        self._position = match.end()

    def _peek(self) -> int:
        self._skip_space()
        if self._position >= len(self._data):
            raise self._error("the text ends too soon")
        return self._data[self._position]

    def _take(self, expected: bytes) -> bool:
        if self._peek() == expected[0]:
            self._position += 1
            return True
        return False

    def _value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise self._error(f"nested deeper than {MAX_DEPTH} levels")
        first = self._peek()
        if first == ord("{"):
            return self._map(depth)
        if first == ord("["):
            return self._array(depth)
        if first == ord('"'):
            return self._string()
        return self._bare()

    def _array(self, depth: int) -> list[Any]:
        self._position += 1
        items: list[Any] = []
        if self._take(b"]"):
            return items
        while True:
            items.append(self._value(depth + 1))
            if self._take(b"]"):
                return items
            if not self._take(b","):
                raise self._error("expected , or ]")

    def _map(self, depth: int) -> dict[Any, Any] | Pairs:
        self._position += 1
        entries = Pairs()
        while not self._take(b"}"):
            if entries and not self._take(b","):
                raise self._error("expected , or }")
            key = self._value(depth + 1)
            if not self._take(b":"):
                raise self._error("expected :")
            entries.append((key, self._value(depth + 1)))
        if any(isinstance(key, dict | list) for key, _ in entries):
            return entries
        return dict(entries)

    def _string(self) -> str:
        match = _STRING.match(self._data, self._position)
        if match is None:
            raise self._error("a string without an end")
        self._position = match.end()
        try:
            return msgspec.json.decode(match.group(), type=str)
        except _BAD_JSON as error:
            raise self._error(str(error)) from None

    def _bare(self) -> Any:
        match = _BARE.match(self._data, self._position)
        if match is None:
            raise self._error("expected a value")
        self._position = match.end()
        word = match.group()
        if word in _LITERALS:
            return _LITERALS[word]
        try:
            return msgspec.json.decode(word)
        except _BAD_JSON:
            return word.decode(errors="replace")
