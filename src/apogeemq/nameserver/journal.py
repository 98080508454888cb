"""The route journal: every change of the route table, one JSON line each, numbered for ever.

Files `journal/routes-<first sequence>.jsonl` in the data folder, rotated by size, the oldest deleted. A line::

    {"seq":17,"time":1700000000000,"kind":"topic_added","cause":"registered","cluster":"c","broker":"b",
     "brokerId":0,"address":"10.0.0.1:10911","topic":"T","readQueues":4,"writeQueues":4,"perm":6,"sysFlag":0,
     "topicCount":3}

`seq`, `time` (ms), `kind`, `cause`, `cluster` and `broker` are always there, the others where they mean something.

Lines reach the kernel with the request that caused them, so a crash of the process loses none; a power cut may
lose the last ones. A torn last line is cut off when the journal is opened. Numbers never restart: a number that
was given and could not be written is skipped, and a reader sees the gap. Called from one thread, but for `read`.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from apogeemq.errors import StorageFailed
from apogeemq.nameserver.changes import Change
from apogeemq.protocol.bodies.journal import JournalLine

MAX_READ_BYTES = 1024 * 1024
_INDEX_EVERY = 1000  # lines between two remembered positions

_NAME = re.compile(r"routes-([0-9]{20})\.jsonl")

_encode_lines = msgspec.json.Encoder().encode_lines


class JournalPage(NamedTuple):
    """Some lines, and where the next ones begin."""

    lines: bytes
    next_sequence: int


_NO_QUEUES = (None, None, None, None)


class _SequenceOnly(msgspec.Struct):
    seq: int


_sequence_of = msgspec.json.Decoder(_SequenceOnly).decode


class Journal:
    """Appends to the newest file; reads from any."""

    def __init__(self, folder: Path, max_file_size: int, max_files: int, next_sequence: int = 1) -> None:
        self._folder = folder
        self._max_file_size = max_file_size
        self._max_files = max(1, max_files)
        self._descriptor = -1
        self._size = 0
        self._marks: list[tuple[int, int]] = []  # (sequence, position) in the newest file
        self.failure_count = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._firsts = sorted(int(match[1]) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name)))
            self.next_sequence = max(next_sequence, self._repair_tail())
            if self._firsts:
                self._open(self._firsts[-1])
        except (OSError, ValueError) as error:
            raise StorageFailed(f"cannot open the route journal in {folder}: {error}") from error

    @property
    def first_sequence(self) -> int:
        """The oldest number still there (or the next one, when nothing is)."""
        return self._firsts[0] if self._firsts else self.next_sequence

    @property
    def last_sequence(self) -> int:
        return self.next_sequence - 1

    def append(self, changed: Sequence[Change], time_ms: int) -> None:
        """Never raises: a journal that cannot be written must not stop registrations. Failures are counted."""
        if not changed:
            return
        first = self.next_sequence
        lines = _encode_lines([_line(first + index, time_ms, change) for index, change in enumerate(changed)])
        self.next_sequence += len(changed)
        try:
            if self._descriptor < 0 or self._size + len(lines) > self._max_file_size:
                self._rotate(first)
            if not self._marks or first - self._marks[-1][0] >= _INDEX_EVERY:
                self._marks.append((first, self._size))
            self._write(lines)
        except OSError:
            self.failure_count += 1

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def read(self, from_sequence: int, max_lines: int) -> JournalPage:
        """Lines from a number on, at most a megabyte (or one line); may be called from another thread than `append`."""
        firsts, marks, last = list(self._firsts), list(self._marks), self.last_sequence
        start = max(1, bisect_right(firsts, from_sequence)) - 1
        found: list[bytes] = []
        size, next_sequence = 0, from_sequence
        for first in firsts[start:]:
            position = 0
            if marks and marks[0][0] == first:  # they are this file's, whatever was rotated meanwhile
                at = bisect_right(marks, (from_sequence, self._max_file_size * 2)) - 1
                position = marks[at][1] if at >= 0 else 0
            try:
                with self._path(first).open("rb") as file:
                    file.seek(position)
                    for line in file:
                        if not line.endswith(b"\n"):
                            break
                        sequence = _sequence_of(line).seq
                        if sequence < from_sequence:
                            continue
                        is_full = len(found) >= max_lines or (found and size + len(line) > MAX_READ_BYTES)
                        if sequence > last or is_full:
                            return JournalPage(b"".join(found), next_sequence)
                        found.append(line)
                        size += len(line)
                        next_sequence = sequence + 1
            except FileNotFoundError:
                continue  # rotated away meanwhile
            except (OSError, msgspec.MsgspecError) as error:
                raise StorageFailed(f"cannot read the route journal {self._path(first)}: {error}") from error
        return JournalPage(b"".join(found), max(next_sequence, min(from_sequence, last + 1)))

    # -- files -----------------------------------------------------------------------------------------------

    def _path(self, first: int) -> Path:
        return self._folder / f"routes-{first:020d}.jsonl"

    def _open(self, first: int) -> None:
        self._descriptor = os.open(self._path(first), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._size = os.fstat(self._descriptor).st_size
        self._marks = [(first, 0)]

    def _rotate(self, first: int) -> None:
        self.close()
        self._open(first)
        if not self._firsts or self._firsts[-1] != first:
            self._firsts.append(first)
        while len(self._firsts) > self._max_files:
            self._path(self._firsts.pop(0)).unlink(missing_ok=True)

    def _write(self, lines: bytes) -> None:
        written = os.write(self._descriptor, lines)
        if written < len(lines):  # a full disk takes a part; a torn line would hide the next one
            os.ftruncate(self._descriptor, self._size)
            raise OSError("short write")
        self._size += written

    def _repair_tail(self) -> int:
        """Cut a torn last line off; gives the number after the last whole one."""
        if not self._firsts:
            return 1
        path = self._path(self._firsts[-1])
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        while whole:
            start = whole.rfind(b"\n", 0, -1) + 1
            try:
                sequence = _sequence_of(whole[start:]).seq
            except msgspec.MsgspecError:
                whole = whole[:start]
                continue
            if len(whole) < len(data):
                os.truncate(path, len(whole))
            return sequence + 1
        os.truncate(path, 0)
        return self._firsts[-1]


def _line(sequence: int, time_ms: int, change: Change) -> JournalLine:
    read_queues, write_queues, perm, sys_flag = change.queues or _NO_QUEUES
    return JournalLine(
        sequence,
        time_ms,
        change.kind,
        change.cause,
        change.cluster,
        change.broker,
        change.broker_id,
        change.address,
        change.topic,
        read_queues,
        write_queues,
        perm,
        sys_flag,
        change.topic_count,
    )
