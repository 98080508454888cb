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

REFUSALS = {1, 13, 17, 26, 29}
"""System error, message illegal, no such topic, no such group, invalid parameter: which, is ours to choose there."""

SAME_KINDS = ({"text", "nothing"}, {"number", "whole number"})
"""An empty text is a text, and 0 may be written 0.0."""

NOT_OUR_TOPICS = ("RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC")
"""Belong to a store of half messages that ours does not have."""


def differences(theirs: Kept, ours: Kept) -> Iterator[str]:
    """What differs from Apache's answer, one line each, beginning with the part's name."""
    if isinstance(theirs, str) or isinstance(ours, str):
        if theirs != ours:
            yield f"answer: {_short(theirs)} beside {_short(ours)}"
        return
    theirs = _without_topics_not_ours(theirs)
    if _JAVA_EXCEPTION.match(theirs.get("remark", "")):
        if ours["code"] not in REFUSALS or not ours.get("remark") or "body" in ours:
            yield f"no clear refusal where Apache fell over ({theirs['remark']}): {_short(ours)}"
        return
    for part in ("code", "flag", "remark", "fields"):
        if theirs.get(part) != ours.get(part):
            yield f"{part}: {_short(theirs.get(part))} beside {_short(ours.get(part))}"
    yield from _body_differences(theirs.get("body"), ours.get("body"))


def _without_topics_not_ours(answer: dict[str, Any]) -> dict[str, Any]:
    found = {part: _without(value) for part, value in answer.items()}
    if total := found["fields"].get("totalTopicNum"):
        found["fields"]["totalTopicNum"] = str(int(total) - len(NOT_OUR_TOPICS))
    return found


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without(item) for key, item in value.items() if key not in NOT_OUR_TOPICS}
    return [_without(item) for item in value if item not in NOT_OUR_TOPICS] if isinstance(value, list) else value


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
            if all_needed:
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
