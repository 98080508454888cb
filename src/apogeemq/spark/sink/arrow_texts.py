"""Texts and bytes of Arrow columns, handled a column at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def as_binary(array: pa.Array) -> pa.Array:
    """The same bytes as plain `binary`, whatever kind of text or bytes they were."""
    if pa.types.is_binary(array.type):
        return array
    return array.cast(pa.binary())


def from_rows(table: npt.NDArray[np.uint8]) -> pa.Array:
    """One value for each row of bytes, all of the same length."""
    count, width = table.shape
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    data = np.ascontiguousarray(table)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def joined(*pieces: pa.Array | bytes) -> pa.Array:
    """The pieces of each row, one after the other; a null is no piece."""
    values = [pa.scalar(piece, pa.binary()) if isinstance(piece, bytes) else piece for piece in pieces]
    return pc.binary_join_element_wise(
        *values, pa.scalar(b"", pa.binary()), null_handling="replace", null_replacement=b""
    )


def around(before: bytes, array: pa.Array, after: bytes) -> pa.Array:
    """A null stays null."""
    return pc.binary_join_element_wise(
        pa.scalar(before, pa.binary()), as_binary(array), pa.scalar(after, pa.binary()), pa.scalar(b"", pa.binary())
    )


def lengths(array: pa.Array) -> npt.NDArray[np.int64]:
    """In bytes; of a null 0."""
    return np.asarray(pc.fill_null(pc.binary_length(array), 0), dtype=np.int64)


def starts(array: pa.Array) -> npt.NDArray[np.int64]:
    """Of a `binary` array: where in its data each value begins, and where the last one ends."""
    found = np.frombuffer(array.buffers()[1], dtype=np.int32)
    return found[array.offset : array.offset + len(array) + 1].astype(np.int64)


def data_of(array: pa.Array) -> npt.NDArray[np.uint8]:
    """All bytes of a `binary` array, one value after the other."""
    if not len(array):
        return np.zeros(0, dtype=np.uint8)
    places, buffer = starts(array), array.buffers()[2]
    if buffer is None:
        return np.zeros(0, dtype=np.uint8)
    return np.frombuffer(buffer, dtype=np.uint8)[places[0] : places[-1]]


def holds_separators(array: pa.Array) -> bool:
    """Whether any value has a character that separates properties, 1 or 2."""
    data = data_of(as_binary(array))
    return bool(((data - np.uint8(1)) < np.uint8(2)).any())


def each_joined(offsets: pa.Array, values: pa.Array, separator: bytes) -> pa.Array:
    """The values of each list as one text."""
    lists = pa.ListArray.from_arrays(offsets.cast(pa.int32()), as_binary(values))
    return pc.binary_join(lists, pa.scalar(separator, pa.binary()))


def keys_of(columns: Sequence[pa.Array]) -> list[bytes]:
    """One value for each row that tells rows with different values in these columns apart."""
    parts: list[pa.Array | bytes] = []
    for column in columns:
        for leaf in _leaves(column):
            text = as_binary(_as_text(leaf))
            # The length before each value: what ends one and begins the next is never in doubt.
            length = as_binary(pc.binary_length(text).cast(pa.string()))
            with_length = pc.binary_join_element_wise(length, text, pa.scalar(b":", pa.binary()))
            parts.append(pc.fill_null(with_length, b"n"))
    found: list[bytes] = joined(*parts).to_pylist()
    return found


def _leaves(column: pa.Array) -> list[pa.Array]:
    if not pa.types.is_struct(column.type):
        return [column]
    # A null struct has null fields.
    return [leaf for field in column.flatten() for leaf in _leaves(field)]


def _as_text(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        return column
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).cast(pa.string())
    return column.cast(pa.string())
