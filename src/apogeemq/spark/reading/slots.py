"""Ranges cut into slots, parts that are pulled side by side: small enough to hold several at once. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from apogeemq.spark.source.ranges import OffsetRange

_FIRST_OFFSETS: Final = 64
_MAX_OFFSETS: Final = 1024
_MAX_OFFSETS_FILTERED: Final = 16_384  # most of them bring nothing
_SLOT_BYTES: Final = 512 * 1024
_WEIGHT_OF_LAST: Final = 0.25


class SlotSizes:
    """How many offsets to put in a slot, so that it brings about half a mebibyte; learnt from answers."""

    def __init__(self, *, is_filtered: bool) -> None:
        self._most = _MAX_OFFSETS_FILTERED if is_filtered else _MAX_OFFSETS
        self._bytes_per_offset: float | None = None

    def learn(self, offsets: int, size: int) -> None:
        """An answer brought so many bytes for so many offsets."""
        mean, last = self._bytes_per_offset, size / offsets
        self._bytes_per_offset = last if mean is None else mean + _WEIGHT_OF_LAST * (last - mean)

    @property
    def offsets(self) -> int:
        if self._bytes_per_offset is None:
            return _FIRST_OFFSETS
        return int(min(max(_SLOT_BYTES / max(self._bytes_per_offset, 1.0), 1), self._most))


def slots_of(ranges: Iterable[OffsetRange], sizes: SlotSizes) -> Iterator[OffsetRange]:
    """In order; each as large as `sizes` says when it is asked for."""
    for one in ranges:
        start = one.start
        while start < one.end:
            end = min(start + sizes.offsets, one.end)
            yield one._replace(start=start, end=end)
            start = end
