"""Attributes of a topic: which there are, what they may be, and how a request changes them.

A request names each attribute with a sign: `+name=value` sets it, `-name` takes it away. What is wrong with a request
is said in Apache's words, as a ValueError.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

CLEANUP_POLICY: Final = "cleanup.policy"
COMPACTION: Final = "COMPACTION"  # of the messages with one key only the last is kept
MESSAGE_TYPE: Final = "message.type"
MIXED: Final = "MIXED"
SET_SIGN: Final = "+"
REMOVE_SIGN: Final = "-"

MAX_TEXT_LENGTH: Final = 4_096

# In the order Apache's refusals list them.
_MESSAGE_TYPES: Final = ("UNSPECIFIED", MIXED, "TRANSACTION", "PRIORITY", "FIFO", "DELAY", "LITE", "NORMAL")
_LONG = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_LONG_MAX: Final = 2**63 - 1
_LEAST_NUMBER: Final = -1


class _Attribute(NamedTuple):
    """`allowed` None: a number from -1 on."""

    is_changeable: bool
    allowed: tuple[str, ...] | None


_ATTRIBUTES: Final = {
    "queue.type": _Attribute(False, ("SimpleCQ", "BatchCQ")),
    CLEANUP_POLICY: _Attribute(False, ("DELETE", COMPACTION)),
    MESSAGE_TYPE: _Attribute(True, _MESSAGE_TYPES),
    "reserve.time": _Attribute(True, None),
    "lite.topic.expiration": _Attribute(True, None),
}


def parse_changes(text: str | None) -> dict[str, str]:
    """`+a=1,-b` as `{"+a": "1", "-b": ""}`."""
    if not text:
        return {}
    if len(text) > MAX_TEXT_LENGTH:
        raise ValueError(f"attributes of {len(text)} characters are longer than {MAX_TEXT_LENGTH}")
    changes: dict[str, str] = {}
    for part in text.split(","):
        key, separator, value = part.partition("=")
        if separator and SET_SIGN not in key:
            raise ValueError(f"add/alter attribute format is wrong: {key}")
        if not separator and REMOVE_SIGN not in key:
            raise ValueError(f"delete attribute format is wrong: {key}")
        if key in changes:
            raise ValueError(f"key duplication: {key}")
        changes[key] = value
    return changes


def altered(current: Mapping[str, str] | None, changes: Mapping[str, str]) -> dict[str, str]:
    """What the attributes are after the changes; `current` is None for a topic that is being made."""
    result = dict(current or {})
    seen: set[str] = set()
    for key, value in changes.items():
        sign, name = key[:1], key[1:]
        if not name or SET_SIGN in name or REMOVE_SIGN in name:
            raise ValueError("kv string format wrong.")
        if name in seen:
            raise ValueError(f"alter duplication key. key: {name}")
        seen.add(name)
        if sign == SET_SIGN:
            _check(name, is_new=current is None)
            _check_value(name, value)
            result[name] = value
        elif current is None:
            raise ValueError(f"only add attribute is supported while creating topic. key: {name}")
        elif sign != REMOVE_SIGN:
            raise ValueError(f"wrong format key: {name}")
        elif name not in current:
            raise ValueError(f"attempt to delete a nonexistent key: {name}")
        else:
            _check(name, is_new=False)
            del result[name]
    return result


def _check(name: str, *, is_new: bool) -> None:
    attribute = _ATTRIBUTES.get(name)
    if attribute is None:
        raise ValueError(f"unsupported key: {name}")
    if not is_new and not attribute.is_changeable:
        raise ValueError(f"attempt to update an unchangeable attribute. key: {name}")


def _check_value(name: str, value: str) -> None:
    allowed = _ATTRIBUTES[name].allowed
    if allowed is None:
        if not _LONG.fullmatch(value) or not _LEAST_NUMBER <= int(value) <= _LONG_MAX:
            raise ValueError(f"value is not in range({_LEAST_NUMBER}, {_LONG_MAX})")
    elif value not in allowed:
        raise ValueError(f"value is not in set: [{', '.join(allowed)}]")
