"""Steps in an order in which each comes after what it reads. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class Cycle(Exception):
    """`names`: once around, the first again at the end."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(" → ".join(names))
        self.names = names


def ordered(reads: Mapping[str, Sequence[str]]) -> list[str]:
    """The names, in the given order where that is free. Raises Cycle."""
    done: dict[str, None] = {}
    for name in reads:
        _visit(name, reads, done, [])
    return list(done)


def _visit(name: str, reads: Mapping[str, Sequence[str]], done: dict[str, None], way: list[str]) -> None:
    if name in done:
        return
    if name in way:
        raise Cycle([*way[way.index(name) :], name])
    for read in reads[name]:
        _visit(read, reads, done, [*way, name])
    done[name] = None
