"""Names in an order in which each comes after those it refers to: steps, parameters. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple


class Order(NamedTuple):
    names: list[str]  # in the given order where that is free, or where circles leave none
    circles: list[list[str]]  # each once around, its first name again at the end


def ordered(refers: Mapping[str, Sequence[str]]) -> Order:
    """Each name and those it refers to, which are names, too. Of circles that share names, not every one is found."""
    done: dict[str, None] = {}
    circles: list[list[str]] = []
    for first in refers:
        way: dict[str, Iterator[str]] = {} if first in done else {first: iter(refers[first])}
        while way:
            name = next(reversed(way))
            following = next(way[name], None)
            if following is None:
                del way[name]
                done[name] = None
            elif following in way:
                names = list(way)
                circles.append([*names[names.index(following) :], following])
            elif following not in done:
                way[following] = iter(refers[following])
    return Order(list(done), circles)
