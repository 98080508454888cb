"""Which files of the log have had their time. Pure: decides, and deletes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

HOUR_MS = 3_600_000


class LogFileAge(NamedTuple):
    """A log file, and when it was last written."""

    start: int
    modified_ms: int


class DiskUse(NamedTuple):
    """Share of the disk that is taken, in percent, and the marks it is held against."""

    used_percent: float
    max_percent: int = 75
    force_percent: int = 85
    full_percent: int = 90

    @property
    def is_full(self) -> bool:
        """Writes are refused from here on."""
        return self.used_percent >= self.full_percent

    @property
    def must_delete(self) -> bool:
        return self.used_percent >= min(self.max_percent, self.force_percent)


def is_delete_hour(delete_when: str, hour: int) -> bool:
    """`04`, or several hours with `;`."""
    return hour in {int(part) for part in delete_when.split(";") if part.strip().isdigit()}


def files_to_delete(
    files: Sequence[LogFileAge], now_ms: int, reserved_hours: int, disk: DiskUse, *, is_due: bool
) -> list[int]:
    """Start offsets of files to delete, oldest first; never the last file.

    At the appointed hour, or when the disk is used beyond its mark: files past their time. When it is used so far
    that writes will soon be refused: the oldest one, whatever its age.
    """
    if not is_due and not disk.must_delete:
        return []
    deletable = files[:-1]
    expired = []
    for file in deletable:
        if now_ms - file.modified_ms < reserved_hours * HOUR_MS:
            break  # the log is deleted from its beginning, without gaps
        expired.append(file.start)
    if not expired and deletable and disk.used_percent >= disk.force_percent:
        return [deletable[0].start]
    return expired
