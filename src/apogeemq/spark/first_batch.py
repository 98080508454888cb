"""Where a stream began, kept in the end of its first batch. Pure.

Spark keeps the ends of batches, and asks for the start of the first one again whenever that is planned again, after a
crash for example: `latest` is elsewhere by then, and what was the earliest may have expired. So the start is looked up
together with the first end, which carries it into the checkpoint. The end after that leaves it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

# As Spark keeps it and hands it back.
Offset: TypeAlias = dict[str, Any]

_BEGINNING: Final = ""  # among names of topics or name servers: none is empty


def not_begun() -> Offset:
    """The start of the first batch, which nobody has looked up yet."""
    return {_BEGINNING: None}


def is_not_begun(start: Mapping[str, Any]) -> bool:
    return start == not_begun()


def first_end(beginning: Mapping[str, Any], end: Mapping[str, Any]) -> Offset:
    return {_BEGINNING: dict(beginning), **end}


def beginning_of(end: Mapping[str, Any]) -> Offset | None:
    """None where it is not carried: in all ends but the first, and in checkpoints of older versions."""
    return end.get(_BEGINNING)


def without_beginning(offset: Mapping[str, Any]) -> Offset:
    return {name: member for name, member in offset.items() if name != _BEGINNING}
