"""A log as pieces that tasks read. Pure.

Files of the log are cut where records are known to begin. Times are those of the first record of a piece; the last one
of a piece is hardly later than the first one of the next.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from apogeemq.spark.cold.wanted import Wanted

# Store times follow the clock of a broker, which may be set back.
CLOCK_SLACK_MS: Final = 10 * 60_000


def joined(folder: str, name: str) -> str:
    """A file or folder in a folder. What the query of a URI says of how to reach one, it says of what is in there."""
    path, mark, query = folder.partition("?") if "://" in folder else (folder, "", "")
    return f"{path.rstrip('/')}/{name}{mark}{query}"


class LogFile(NamedTuple):
    """`folder` as the option said it, `start` the physical offset of its first byte."""

    folder: str
    name: str
    start: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size

    def __str__(self) -> str:
        return joined(self.folder, self.name)


class Piece(NamedTuple):
    """Part of a file, from one physical offset to before another; a record begins at both. `is_tail`: the log ends in
    it."""

    file: LogFile
    start: int
    end: int
    is_tail: bool

    @property
    def size(self) -> int:
        return self.end - self.start


def breaks(files: Sequence[LogFile]) -> list[str]:
    """Where a file does not follow the one before it, in words."""
    return [
        f"{after} does not follow {before}, which ends at {before.end}: a file is missing or has been cut"
        for before, after in pairwise(files)
        if before.end != after.start
    ]


def split_targets(files: Iterable[LogFile], max_bytes: int) -> list[int]:
    """Offsets near which files should be cut, so that pieces are of equal size and no larger."""
    targets: list[int] = []
    for file in files:
        count = -(-file.size // max_bytes)
        targets += [file.start + file.size * number // count for number in range(1, count)]
    return targets


def cut(files: Sequence[LogFile], starts: Iterable[int]) -> list[Piece]:
    """Pieces of the files that begin where the files do and at these offsets, all of which records begin at."""
    inner = sorted(set(starts))
    pieces: list[Piece] = []
    for file in files:
        own = inner[bisect_right(inner, file.start) : bisect_left(inner, file.end)]
        pieces += [Piece(file, start, end, False) for start, end in pairwise((file.start, *own, file.end))]
    if pieces:
        pieces[-1] = pieces[-1]._replace(is_tail=True)
    return pieces


def in_time(pieces: Sequence[Piece], first_times: Mapping[int, int], wanted: Wanted) -> list[Piece]:
    """Those that may hold messages of the time that is wanted; `first_times` by where pieces start, as far as known."""
    kept: list[Piece] = []
    for number, piece in enumerate(pieces):
        first = first_times.get(piece.start)
        following = first_times.get(pieces[number + 1].start) if number + 1 < len(pieces) else None
        is_too_late = wanted.end_ms is not None and first is not None and first - CLOCK_SLACK_MS >= wanted.end_ms
        is_too_early = (
            wanted.start_ms is not None and following is not None and following + CLOCK_SLACK_MS < wanted.start_ms
        )
        if not is_too_late and not is_too_early:
            kept.append(piece)
    return kept


def packed(pieces: Iterable[Piece], max_bytes: int) -> list[tuple[Piece, ...]]:
    """Neighbours that are small share a task, for a task costs as much as reading some megabytes."""
    tasks: list[list[Piece]] = []
    room = 0
    for piece in pieces:
        if piece.size > room or not tasks:
            tasks.append([])
            room = max_bytes
        tasks[-1].append(piece)
        room -= piece.size
    return [tuple(task) for task in tasks]
