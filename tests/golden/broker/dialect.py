"""Reads JSON as Apache's brokers write it: keys may be bare numbers or whole objects.

A bare number becomes the key `#7`, an object the key `{…}` in compact form, so that a quoted number or an object in
quotes is seen to be something else.
"""

from __future__ import annotations

import json
from typing import Any

_DECODER = json.JSONDecoder()


def loads(text: str) -> Any:
    """The one value that `text` is; ValueError for anything else."""
    value, end = _value(text, _skip(text, 0))
    if _skip(text, end) != len(text):
        raise ValueError(f"something follows the value: {text[end : end + 20]!r}")
    return value


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _value(text: str, at: int) -> tuple[Any, int]:
    if text.startswith("{", at):
        return _object(text, at)
    if text.startswith("[", at):
        return _array(text, at)
    return _DECODER.raw_decode(text, at)


def _object(text: str, at: int) -> tuple[dict[str, Any], int]:
    members: dict[str, Any] = {}
    at = _skip(text, at + 1)
    while not text.startswith("}", at):
        key, at = _value(text, at)
        at = _skip(text, at)
        if not text.startswith(":", at):
            raise ValueError(f"no colon at {at}")
        members[_key(key)], at = _value(text, _skip(text, at + 1))
        at = _after_comma(text, at, "}")
    return members, at + 1


def _array(text: str, at: int) -> tuple[list[Any], int]:
    items = []
    at = _skip(text, at + 1)
    while not text.startswith("]", at):
        item, at = _value(text, at)
        items.append(item)
        at = _after_comma(text, at, "]")
    return items, at + 1


def _after_comma(text: str, at: int, end: str) -> int:
    at = _skip(text, at)
    if text.startswith(",", at):
        return _skip(text, at + 1)
    if not text.startswith(end, at):
        raise ValueError(f"no comma and no {end} at {at}")
    return at


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, dict):
        return json.dumps(key, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return f"#{key}"
