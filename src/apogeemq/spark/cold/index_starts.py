"""Where records begin in the middle of a log file, from the key index: its items are in the order of the log."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

from apogeemq.spark.cold.folder import OpenFile, index_files, opened
from apogeemq.store.layout import (
    INDEX_FILE_SIZE,
    INDEX_HEADER,
    INDEX_HEADER_SIZE,
    INDEX_ITEM,
    INDEX_ITEM_COUNT,
    INDEX_ITEM_SIZE,
    INDEX_ITEMS_AT,
)

_FIRST_ITEM: Final = 1


def starts_near(path: str, targets: Sequence[int]) -> list[int]:
    """For each target, the first indexed record at or after it, if there is one. Whoever uses it looks at the record.

    Files that were made with other settings than the usual are passed: nothing tells where their items begin.
    """
    found: list[int] = []
    rest = sorted(targets)
    for folder, name, size in index_files(path) if rest else ():
        if size != INDEX_FILE_SIZE or not rest:
            continue
        with contextlib.suppress(FileNotFoundError), opened(folder, name) as file:  # a broker may delete it meanwhile
            _, _, _, end_offset, _, next_item = INDEX_HEADER.unpack(file.read(0, INDEX_HEADER_SIZE))
            item_count = min(max(next_item, _FIRST_ITEM), INDEX_ITEM_COUNT)
            covered = [target for target in rest if target <= end_offset]
            rest = rest[len(covered) :]
            found += [start for target in covered if (start := _start_after(file, item_count, target)) is not None]
    return found


def _start_after(file: OpenFile, end: int, target: int) -> int | None:
    low, high = _FIRST_ITEM, end
    while low < high:
        middle = (low + high) // 2
        if _offset_of(file, middle) < target:
            low = middle + 1
        else:
            high = middle
    return _offset_of(file, low) if low < end else None


def _offset_of(file: OpenFile, item: int) -> int:
    offset: int = INDEX_ITEM.unpack(file.read(INDEX_ITEMS_AT + item * INDEX_ITEM_SIZE, INDEX_ITEM_SIZE))[1]
    return offset
