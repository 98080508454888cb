"""Which events of which journal a read covers. Every name server numbers its own journal. Pure.

A place in all journals is a dict from a name server's address to the number of the next event: the offset of a stream.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, TypeAlias

from apogeemq.errors import ConfigError
from apogeemq.spark.routes.read_options import EARLIEST, LATEST, Place

Sequences: TypeAlias = dict[str, int]

OLDEST: Final = 0  # as the start of a range: whatever is there


class JournalBounds(NamedTuple):
    """The oldest number a name server still has, and the one it will give next."""

    first: int
    end: int


class JournalRange(NamedTuple):
    """Events of one journal, `end` not among them."""

    name_server: str
    start: int
    end: int


def resolve(option: str, place: Place, bounds: Mapping[str, JournalBounds], name_servers: Collection[str]) -> Sequences:
    """What an option says, in numbers; words need the bounds. ConfigError unless a list of numbers names just these
    name servers."""
    if place == EARLIEST:
        return {name: found.first for name, found in bounds.items()}
    if place == LATEST:
        return {name: found.end for name, found in bounds.items()}
    if isinstance(place, int):
        return dict.fromkeys(name_servers, place)
    given = dict(place) if isinstance(place, tuple) else {}
    strangers, missing = sorted(given.keys() - set(name_servers)), sorted(set(name_servers) - given.keys())
    if strangers:
        raise ConfigError(f"option {option} names {strangers[0]}, which option nameServer does not")
    if missing:
        raise ConfigError(f"option {option} has no number for the name server {missing[0]}")
    return given


def lost(name_server: str, start: int, bounds: JournalBounds) -> str | None:
    """Why events from `start` on cannot all be had any more; None if they can."""
    if start < bounds.first:
        return (
            f"the route journal of {name_server} begins at {bounds.first}: "
            f"the events {start} to {bounds.first - 1} are gone"
        )
    if start > bounds.end:
        return (
            f"the route journal of {name_server} ends before {bounds.end}, and should go on at {start}: "
            "it was begun anew or has lost its end"
        )
    return None


def available_start(start: int, bounds: JournalBounds) -> int:
    """Where to go on when events are lost and that is accepted: with the oldest there is."""
    return start if bounds.first <= start <= bounds.end else bounds.first


def limited(start: Mapping[str, int], end: Mapping[str, int], most: int | None) -> Sequences:
    """An end that leaves at most so many events in all; journals share what there is room for evenly."""
    if most is None:
        return dict(end)
    chosen: Sequences = {}
    rest, waiting = most, sorted(end, key=lambda name: end[name] - start[name])
    for position, name in enumerate(waiting):
        share = -(-rest // (len(waiting) - position))
        taken = min(max(end[name] - start[name], 0), share)
        chosen[name] = start[name] + taken
        rest -= taken
    return chosen


def ranges(start: Mapping[str, int], end: Mapping[str, int]) -> list[JournalRange]:
    """What lies between two places. A journal new to the reader, or begun anew, is read from the oldest there is."""
    found = []
    for name in sorted(end):
        first = start.get(name, OLDEST)
        if first > end[name]:
            first = OLDEST
        if first < end[name]:
            found.append(JournalRange(name, first, end[name]))
    return found
