"""Rows that were read one by one, put back in their places among the usual ones. Pure.

Some bytes of a compressed body stand for megabytes, so what a chunk unpacks to has no limit that is known before. Rows
are therefore taken until they are large together, and become a batch, before the next are unpacked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from apogeemq.spark.reading.binary_fields import Indices, indices
from apogeemq.spark.reading.single_rows import Row

# Of the rows of a batch that were read one by one; the last of them may be as large as a body may grow.
BYTES: Final = 64 * 1024 * 1024


def merged_batches(
    usual: Any, numbers: Indices, rows: Iterable[Row], batch_of: Callable[[Sequence[Row]], Any]
) -> Iterator[Any]:
    """In the order of the numbers of records, which `numbers` are for the rows of `usual`. The last batch is what is
    left of `usual`: all of it when there are no rows."""
    done = 0
    for group in _groups(rows):
        end = int(np.searchsorted(numbers, group[-1].number))
        yield _merged(usual.slice(done, end - done), numbers[done:end], group, batch_of)
        done = end
    yield usual.slice(done)


def _groups(rows: Iterable[Row]) -> Iterator[list[Row]]:
    group: list[Row] = []
    size = 0
    for row in rows:
        group.append(row)
        size += row.size
        if size >= BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _merged(usual: Any, numbers: Indices, rows: Sequence[Row], batch_of: Callable[[Sequence[Row]], Any]) -> Any:
    single = batch_of(rows)
    if not len(numbers):
        return single
    order = np.argsort(np.concatenate((numbers, [row.number for row in rows])), kind="stable")
    return pa.concat_batches((usual, single)).take(indices(order))
