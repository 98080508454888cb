"""Where a pipeline reads and writes, as its checkpoint remembers it. Pure.

Positions mean something only there: with another cluster or another folder they would leave out, without a word, what
the run before has read. Names of servers and topics are lists that change in operation: one that stays is enough.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from apogeemq.spark.pipeline.spec import PipelineSpec, Sink, Source
from apogeemq.spark.pipeline.text.addresses import servers_named

# Options that say where, by their lower case, and what they are called here. Ways to name topics are one place.
_TOPICS: Final = "topics"
_SPELLING: Final = {
    **dict.fromkeys(("subscribe", "subscribepattern", "assign", "topics"), _TOPICS),
    **{name.lower(): name for name in ("nameServer", "kafka.bootstrap.servers", "topic", "path", "url", "dbtable")},
}
_SERVERS: Final = ("nameServer", "kafka.bootstrap.servers")
_COMMAS: Final = re.compile(r"[|,;\s]+")

_PASSWORDS: Final = re.compile(r"(?i)(?<=[?&;])([^=?&;]*(?:password|pwd|secret|token)[^=?&;]*=)[^?&;]*")
_USERS: Final = re.compile(r"(?<=//)[^/@]*@|(?<=:thin:)[^/@]*/[^@]*@")


def places(spec: PipelineSpec, qualified: Callable[[str], str]) -> dict[str, str]:
    """`sources.orders/nameServer` and the like, each with its value; of tables nothing: they are read whole each time.

    `qualified` makes one name of all that mean the same folder.
    """
    if not spec.is_streaming:
        return {}
    found: dict[str, str] = {}
    for source in spec.sources.values():
        if source.is_stream:
            found |= _of(f"sources.{source.name}", {"format": source.format, **_said(source)}, qualified)
    for sink in spec.sinks.values():
        found |= _of(f"sinks.{sink.name}", _said_of_sink(sink), qualified)
    if spec.dead_letters is not None:
        found |= _of(spec.dead_letters.name, _said_of_sink(spec.dead_letters), qualified)
    return found


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """What is elsewhere now. Sources and sinks that have come or gone are no change: they have no positions to lose."""
    names = _parts(before) & _parts(after)
    for key in sorted(before.keys() | after.keys()):
        part, _, option = key.rpartition("/")
        if part in names and not _is_same(option, before.get(key, ""), after.get(key, "")):
            yield f"{part} {option}: {before.get(key) or 'none'} → {after.get(key) or 'none'}"


def _said(part: Source | Sink) -> dict[str, str]:
    given = {**part.options, **({"path": part.path} if part.path else {})}
    return {_SPELLING[name.lower()]: value for name, value in given.items() if name.lower() in _SPELLING}


def _said_of_sink(sink: Sink) -> dict[str, str]:
    return {"kind": sink.kind.value, **_said(sink), **({"topic": sink.topic} if sink.topic else {})}


def _of(part: str, said: Mapping[str, str], qualified: Callable[[str], str]) -> dict[str, str]:
    return {f"{part}/{name}": _shown(name, value, qualified) for name, value in said.items() if value}


def _shown(name: str, value: str, qualified: Callable[[str], str]) -> str:
    """Nothing secret: it is written down."""
    if name == "path":
        return qualified(value)
    return _PASSWORDS.sub(r"\1…", _USERS.sub("…@", value)) if name == "url" else value


def _parts(found: Mapping[str, str]) -> set[str]:
    return {key.rpartition("/")[0] for key in found}


def _is_same(option: str, before: str, after: str) -> bool:
    members = servers_named if option in _SERVERS else _topics_named if option == _TOPICS else None
    if members is None or not (before and after):
        return before == after
    return not members(before).isdisjoint(members(after))


def _topics_named(text: str) -> frozenset[str]:
    """Of a list with commas, a pattern with bars, or `assign`."""
    if text.startswith("{"):
        return frozenset(json.loads(text))
    return frozenset(word for word in _COMMAS.split(text) if word)
