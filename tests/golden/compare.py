"""When an answer of ours counts as the same as Apache's.

Everything is compared except what `MASKED` names. Bodies must be the same bytes; where Java's hash tables decide the
order of a body's members, ours may have them in another order, and then every value and the number of times every byte
occurs must still agree (so that escapes, bare keys and left-out nulls are compared too).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.golden.steps import V4
from tests.golden.wire import Frame

MASKED = {
    "language": "each server names its own",
    "version": "each server sends its own; ours speaks as 5.5.0",
    "serializeTypeCurrentRPC": "Apache 5.x answers in JSON whatever the request's codec; ours in the request's codec",
    "extFields": "absent and empty are the same to every client, and Apache writes now one, now the other",
    "remark of a Java exception": "names a Java class and line; ours must say something of its own",
    "of 4.9": "keys that came with 5.0, how text is escaped, and the address of the FAQ; see `as_4_9`",
    "configuration": "paths, ports and keys that only one of them has; see `_config_differences`",
}

_JAVA_EXCEPTION = re.compile(r"^(java|com|org)\.[\w.]+(Exception|Error)\b")
_BARE_KEY = re.compile(rb"([{,])(-?\d+):")
_FREE_LISTS = ("queueDatas", "brokerDatas", "topicList")


_FAQ = ("http://rocketmq.apache.org/docs/faq/", "https://rocketmq.apache.org/docs/bestPractice/06FAQ")
_NEW_KEYS = ("enableActingMaster", "stateVersion")


def differences(theirs: Frame | None, ours: Frame | None, version: str) -> Iterator[str]:
    """What differs from the answer of Apache's `version`, one line each, beginning with the part's name."""
    if theirs is None or ours is None:
        if theirs is not ours:
            yield f"answer: {theirs} beside {ours}"
        return
    expected, found = theirs.fields(), ours.fields()
    for name in ("code", "flag", "opaque"):
        if expected[name] != found[name]:
            yield f"{name}: {expected[name]} beside {found[name]}"
    yield from _remark_differences(expected.get("remark"), found.get("remark"))
    if expected.get("extFields", {}) != found.get("extFields", {}):
        yield f"extFields: {expected.get('extFields')} beside {found.get('extFields')}"
    if theirs.body != ours.body:
        yield from _body_differences(theirs.body, ours.body, version)


def _remark_differences(theirs: str | None, ours: str | None) -> Iterator[str]:
    if theirs is not None and _JAVA_EXCEPTION.match(theirs):
        if not ours:
            yield f"remark: {theirs!r} beside nothing"
    elif (theirs or "").replace(*_FAQ) != (ours or ""):
        yield f"remark: {theirs!r} beside {ours!r}"


def _body_differences(theirs: bytes, ours: bytes, version: str) -> Iterator[str]:
    if b"listenPort=" in theirs:
        yield from _config_differences(theirs.decode(), ours.decode())
        return
    if theirs.startswith(b"{") and ours.startswith(b"{"):
        if version == V4 and as_4_9(parsed(theirs)) == as_4_9(parsed(ours)):
            return
        if parsed(theirs) == parsed(ours) and Counter(theirs) == Counter(ours):
            return
    yield f"body: {theirs!r} beside {ours!r}"


def parsed(body: bytes) -> Any:
    """A body of either dialect, with lists whose order means nothing sorted."""
    value = json.loads(_BARE_KEY.sub(rb'\1"\2":', body))
    for name in _FREE_LISTS:
        if isinstance(value.get(name), list):
            value[name].sort(key=json.dumps)
    for names in value.get("clusterAddrTable", {}).values():
        names.sort(key=str)
    return value


def as_4_9(value: Any) -> Any:
    """Without the keys that 4.9 did not know."""
    if isinstance(value, dict):
        return {key: as_4_9(item) for key, item in value.items() if key not in _NEW_KEYS}
    return [as_4_9(item) for item in value] if isinstance(value, list) else value


def _config_differences(theirs: str, ours: str) -> Iterator[str]:
    """Every key of Apache's must be there with its value, unless the value is a place or a port."""
    expected = dict(line.split("=", 1) for line in theirs.splitlines())
    found = dict(line.split("=", 1) for line in ours.splitlines())
    for key, value in expected.items():
        if key not in found:
            yield f"configuration: {key} is missing"
        elif found[key] != value and "<" not in value:
            yield f"configuration: {key}: {value!r} beside {found[key]!r}"
