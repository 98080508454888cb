"""Batches in the portions that Spark is given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

BYTES: Final = 1 << 20


def slices_of(batch: Any) -> Iterator[Any]:
    """The rows of a batch, about a megabyte at a time. Spark makes rows of a portion once it has all of it, and takes
    less time for a small one, which fits into the processor's caches. Our own work is less with large batches.

    Rows are taken to be alike: where they are not, a portion may be larger, which costs time and nothing else. The
    sink's pieces have a size they must not exceed, and every one of them is measured, which here would be felt.
    """
    rows = max(batch.num_rows * BYTES // max(batch.nbytes, 1), 1)
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
