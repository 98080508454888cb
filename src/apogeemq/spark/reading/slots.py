"""Ranges cut into slots, parts that are pulled side by side: small enough to hold several at once. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from apogeemq.spark.source.ranges import OffsetRange

MAX_MESSAGES: Final = 4096  # of a pull; most brokers bring fewer
_FIRST_OFFSETS: Final = 64
_MAX_OFFSETS: Final = 1024
_MAX_OFFSETS_FILTERED: Final = 16_384  # most of them bring nothing
_SLOT_BYTES: Final = 512 * 1024
_WEIGHT_OF_LAST: Final = 0.25
# After so many pulls that brought all they asked for, one asks for more: a broker's limit may be one of bytes.
_CONTENT_PULLS: Final = 64
_GROWTH: Final = 4


class PullSizes:
    """How many offsets to put in a slot, so that it brings about half a mebibyte, and how many messages brokers bring
    at once; learnt from answers."""

    def __init__(self, *, is_filtered: bool) -> None:
        self._is_filtered = is_filtered
        self._bytes_per_offset: float | None = None
        self._messages = MAX_MESSAGES
        self._content_pulls = 0

    def learn(self, asked: int, offsets: int, size: int) -> None:
        """A pull of at most so many messages brought so many bytes for so many offsets."""
        mean, last = self._bytes_per_offset, size / offsets
        self._bytes_per_offset = last if mean is None else mean + _WEIGHT_OF_LAST * (last - mean)
        if self._is_filtered:
            return
        if offsets < asked:
            self._messages, self._content_pulls = offsets, 0
        elif asked >= self._messages:
            self._messages, self._content_pulls = asked, self._content_pulls + 1

    @property
    def offsets(self) -> int:
        """Of the next slot."""
        if self._bytes_per_offset is None:
            return _FIRST_OFFSETS
        most = _MAX_OFFSETS_FILTERED if self._is_filtered else _MAX_OFFSETS
        offsets = int(min(max(_SLOT_BYTES / max(self._bytes_per_offset, 1.0), 1), most))
        return offsets - offsets % self._messages if offsets > self._messages else offsets

    def full_pulls(self, offsets: int) -> int:
        """How many pulls of `messages` these offsets are; none when a single one is to try how many it can bring."""
        if self._is_filtered or (self._content_pulls >= _CONTENT_PULLS and self._messages < MAX_MESSAGES):
            return 0
        return offsets // self._messages

    @property
    def messages(self) -> int:
        """That a broker brings at once."""
        return self._messages

    def wish(self) -> int:
        """How many messages a single pull asks for."""
        if self._content_pulls < _CONTENT_PULLS:
            return self._messages
        self._content_pulls = 0
        return min(_GROWTH * self._messages, MAX_MESSAGES)


def slots_of(ranges: Iterable[OffsetRange], sizes: PullSizes) -> Iterator[OffsetRange]:
    """In order; each as large as `sizes` says when it is asked for."""
    for one in ranges:
        start = one.start
        while start < one.end:
            end = min(start + sizes.offsets, one.end)
            yield one._replace(start=start, end=end)
            start = end
