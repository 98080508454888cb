"""What a scan will read: looked up in the folder by the driver, without reading the log."""

from __future__ import annotations

import contextlib
import logging
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from apogeemq.errors import ProtocolError, StorageFailed
from apogeemq.protocol.record import BLANK, MAX_HEAD_SIZE, RecordHead, decode_head
from apogeemq.spark.cold.folder import absolute, log_files, opened
from apogeemq.spark.cold.index_starts import starts_near
from apogeemq.spark.cold.planning import LogFile, Piece, breaks, cut, in_time, packed, split_targets
from apogeemq.spark.cold.scan_options import ScanOptions

log = logging.getLogger(__name__)


def tasks_of(options: ScanOptions) -> list[tuple[Piece, ...]]:
    """StorageFailed when there is no log, or when files of it are missing and that is not to be passed over."""
    path = absolute(options.path)
    files = without_unused(log_files(path, tuple(map(absolute, options.log_paths))))
    for problem in breaks(files):
        if not options.skips_damage:
            raise StorageFailed(f"{problem} (option onCorrupt=skip reads what is there)")
        log.warning("%s", problem)
    heads = _heads(files, starts_near(path, split_targets(files, options.max_partition_bytes)))
    pieces = cut(files, heads)
    if options.wanted.is_bounded_in_time:
        heads |= _heads(files, (file.start for file in files))
        pieces = in_time(pieces, {start: head.store_time for start, head in heads.items()}, options.wanted)
    return packed(pieces, options.max_partition_bytes)


def without_unused(files: Sequence[LogFile]) -> list[LogFile]:
    """Brokers make the next file before they need it."""
    used = list(files)
    while len(used) > 1 and _is_unused(used[-1]):
        used.pop()
    return used


def _is_unused(file: LogFile) -> bool:
    try:
        with opened(file.folder, file.name) as open_file:
            return not any(open_file.read(0, BLANK.size))
    except FileNotFoundError:
        return True


def _heads(files: Sequence[LogFile], offsets: Iterable[int]) -> dict[int, RecordHead]:
    """Of the records at these offsets; nothing of offsets where none begins."""
    found: dict[int, RecordHead] = {}
    waiting = sorted(offsets)
    for file in files:
        own = waiting[bisect_left(waiting, file.start) : bisect_left(waiting, file.end)]
        if not own:
            continue
        with contextlib.suppress(FileNotFoundError), opened(file.folder, file.name) as open_file:
            for offset in own:
                with contextlib.suppress(ProtocolError):
                    head = decode_head(open_file.read(offset - file.start, MAX_HEAD_SIZE))
                    if head.physical_offset == offset:
                        found[offset] = head
    return found
