"""When an answer of our broker counts as the same as Apache's.

Both were masked by the same rules (`masks.py`); what is left must be equal, except what this module says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.golden.broker.files import Kept

_JAVA_EXCEPTION = re.compile(r"^((java|com|org)\.[\w.]+(Exception|Error)\b|Cannot (invoke|read) )")
"""Apache fell over, and its remark names a class and a line of its own. Ours must refuse, and say why."""

REFUSALS = {1, 13, 29}
"""System error, message illegal, invalid parameter: which of them, is ours to choose there."""

SAME_KINDS = ({"text", "nothing"}, {"number", "whole number"})
"""An empty text is a text, and 0 may be written 0.0."""

NOT_OURS = {
    "of a half message's thread pool": ("EndTransactionQueueSize", "EndTransactionThreadPoolQueueCapacity"),
}
"""Keys of the status that ours does not report, by reason."""


def differences(theirs: Kept, ours: Kept) -> Iterator[str]:
    """What differs from Apache's answer, one line each, beginning with the part's name."""
    if isinstance(theirs, str) or isinstance(ours, str):
        if theirs != ours:
            yield f"answer: {_short(theirs)} beside {_short(ours)}"
        return
    if _JAVA_EXCEPTION.match(theirs.get("remark", "")):
        if ours["code"] not in REFUSALS or not ours.get("remark") or "body" in ours:
            yield f"no clear refusal where Apache fell over ({theirs['remark']}): {_short(ours)}"
        return
    for part in ("code", "flag", "remark", "fields"):
        if theirs.get(part) != ours.get(part):
            yield f"{part}: {_short(theirs.get(part))} beside {_short(ours.get(part))}"
    yield from _body_differences(theirs.get("body"), ours.get("body"))


def _body_differences(theirs: Any, ours: Any) -> Iterator[str]:
    if _is_kinds(theirs) and isinstance(ours, dict):
        yield from _kind_differences("configuration", theirs, ours, all_needed=False)
    elif isinstance(theirs, dict) and _is_kinds(theirs.get("table")) and isinstance(ours, dict):
        yield from _kind_differences("status", theirs["table"], ours["table"], all_needed=True)
    elif json.dumps(theirs, sort_keys=True) != json.dumps(ours, sort_keys=True):
        yield from _parts(theirs, ours, "body")


def _is_kinds(value: Any) -> bool:
    return isinstance(value, dict) and len(value) > 20 and set(value.values()) <= _KINDS


_KINDS = {"boolean", "whole number", "number", "numbers", "text", "nothing"}


def _kind_differences(
    what: str, theirs: Mapping[str, str], ours: Mapping[str, str], *, all_needed: bool
) -> Iterator[str]:
    """Keys that both have must be of one kind. Ours may have keys of its own, and need not know every setting."""
    for key, kind in theirs.items():
        if key not in ours:
            if all_needed and not any(key in keys for keys in NOT_OURS.values()):
                yield f"{what}: {key} is missing"
        elif ours[key] != kind and {ours[key], kind} not in SAME_KINDS:
            yield f"{what}: {key}: {kind} beside {ours[key]}"


def _parts(theirs: Any, ours: Any, path: str) -> Iterator[str]:
    """Where two bodies differ, so that a long one need not be read."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted(theirs.keys() | ours.keys()):
            if key not in ours:
                yield f"{path}.{key}: {_short(theirs[key])} beside nothing"
            elif key not in theirs:
                yield f"{path}.{key}: nothing beside {_short(ours[key])}"
            else:
                yield from _parts(theirs[key], ours[key], f"{path}.{key}")
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for number, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            yield from _parts(one, other, f"{path}[{number}]")
    elif json.dumps(theirs) != json.dumps(ours):
        yield f"{path}: {_short(theirs)} beside {_short(ours)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else text[:300] + "…"
