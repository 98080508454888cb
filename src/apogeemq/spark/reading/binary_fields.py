"""Numbers and parts of a buffer as Arrow arrays, without an object for each. Pure."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from apogeemq.spark.hex_digits import in_hex

Indices = npt.NDArray[np.int64]

_INT64: Final = pa.int64()


def fields_of(data: Any, starts: Indices, ends: Indices, kind: Any) -> Any:
    """The bytes of a buffer from each start to its end, as an array of strings or binaries; they must not overlap and
    must be in order."""
    # Fields and the gaps between them lie side by side, as an array wants it; then only the fields are taken.
    borders = np.empty(2 * len(starts), np.int32)
    borders[0::2] = starts
    borders[1::2] = ends
    return spaced(data, borders, kind, 2, 0)


def spaced(data: Any, borders: npt.NDArray[np.int32], kind: Any, step: int, first: int) -> Any:
    """Every so many of the parts between neighbouring borders."""
    count = max(len(borders) - 1, 0)
    if not count:
        return pa.array([], kind)
    everything = pa.Array.from_buffers(kind, count, [None, pa.py_buffer(borders), data])
    return everything.take(numbers(np.arange(first, count, step), _INT64))


def equally_long(data: Any, first: int, step: int, length: int, count: int, kind: Any) -> Any:
    """As `fields_of`, of fields that lie as far from each other as they are long, all of them."""
    fields: npt.NDArray[Any] = np.ndarray((count,), f"V{length}", data, first, (step,))
    borders = np.arange(count + 1, dtype=np.int32) * np.int32(length)
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(borders), pa.py_buffer(fields.tobytes())])


def numbers(values: npt.NDArray[Any], kind: Any) -> Any:
    """An array of numbers of this kind. `pa.array` looks for pandas each time, which takes longer than the rest."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def indices(places: Indices) -> Any:
    """To take; a negative one is null."""
    valid = places >= 0
    if valid.all():
        return numbers(places, _INT64)
    bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(_INT64, len(places), [bits, pa.py_buffer(places)])


def flags(values: npt.NDArray[np.bool_]) -> Any:
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(np.packbits(values, bitorder="little"))])


def repeated(text: str, count: int) -> Any:
    """A string array with the same text everywhere."""
    octets = text.encode()
    borders = np.arange(count + 1, dtype=np.int32) * np.int32(len(octets))
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(borders), pa.py_buffer(octets * count)])


def texts_in_hex(octets: npt.NDArray[np.uint8]) -> Any:
    """The rows of a matrix as strings of upper-case hex digits."""
    count, width = octets.shape
    borders = np.arange(count + 1, dtype=np.int32) * np.int32(2 * width)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(borders), pa.py_buffer(in_hex(octets))])
