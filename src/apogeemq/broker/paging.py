"""Large tables told in parts: a slave asks for a page at a time, sorted by name. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TypeVar

import msgspec

from apogeemq.model.routes import DataVersion

MAX_PAGE = 2_000  # as Apache's brokers give at once

ValueT = TypeVar("ValueT")


def page_of(
    table: Mapping[str, ValueT], version: DataVersion, asked_version: str | None, start: int | None, most: int | None
) -> dict[str, ValueT]:
    """The whole table for those who know no pages. Whoever has begun with another version begins again."""
    names = sorted(table)
    if asked_version is None and start is None and most is None:
        return {name: table[name] for name in names}
    first = max(start or 0, 0) if _parsed(asked_version) == version else 0
    count = MAX_PAGE if most is None else max(0, min(most, MAX_PAGE))
    return {name: table[name] for name in islice(names, first, first + count)}


def _parsed(version: str | None) -> DataVersion | None:
    try:
        return msgspec.json.decode(version or "", type=DataVersion)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
