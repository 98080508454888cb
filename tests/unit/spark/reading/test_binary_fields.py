"""Arrays made at a stroke, of few rows and of many; what is kept of one is no part of the next."""

from __future__ import annotations

import pyarrow as pa
import pytest

from apogeemq.spark.reading.binary_fields import equally_long, repeated

COUNTS = [0, 1, 4_095, 4_096, 5_000, 65_536, 65_537]
LONG = "x" * 100


@pytest.mark.parametrize("text", ["", "T", "é", LONG])
def test_the_same_text_everywhere(text: str) -> None:
    for count in (*COUNTS, *COUNTS[::-1]):
        found = repeated(text, count)
        found.validate(full=True)
        assert found.nbytes == (len(text.encode()) + 4) * count
        assert found.unique().to_pylist() == ([text] if count else [])
        assert len(found) == count


@pytest.mark.parametrize("length", [1, 7])
def test_fields_that_are_equally_long(length: int) -> None:
    for count in COUNTS[1:]:
        data = b"".join(b"%08d" % number for number in range(count))
        found = equally_long(data, 8 - length, 8, length, count, pa.binary())
        found.validate(full=True)
        assert found[0].as_py() == b"00000000"[:length]
        assert found[count - 1].as_py() == (b"%08d" % (count - 1))[-length:]


def test_fields_too_long_for_what_is_kept() -> None:
    length = 40_000
    found = equally_long(bytes(length * 4_096), 0, length, length, 4_096, pa.binary())
    found.validate(full=True)
    assert len(found[4_095].as_py()) == length
