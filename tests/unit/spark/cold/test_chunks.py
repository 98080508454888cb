"""Whole records at the beginning of some bytes of a log."""

from __future__ import annotations

from apogeemq.spark.cold.chunks import Chunk
from tests.unit.spark.reading.stored import Stored, stored_from

COUNT = 5


def test_equal_records_are_found_wherever_the_bytes_end() -> None:
    """A block of a log ends anywhere: within the next record, or in zeros."""
    size = len(Stored().at(0))
    messages = [Stored(b"%04d" % number, physical_offset=number * size) for number in range(COUNT + 1)]
    log = stored_from(0, messages)
    assert len(log) == size * len(messages)
    for tail in range(size):
        for behind in (log[size * COUNT :][:tail], bytes(tail)):
            chunk = Chunk(log[: size * COUNT] + behind, 0)
            assert (len(chunk), chunk.size, chunk.is_usual.tolist()) == (COUNT, size * COUNT, [True] * COUNT)
            bodies = zip(chunk.heads.body_starts, chunk.heads.topic_starts, strict=True)
            assert [log[start:end] for start, end in bodies] == [message.body for message in messages[:COUNT]]
