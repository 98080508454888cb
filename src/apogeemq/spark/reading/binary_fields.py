"""Numbers and parts of a buffer as Arrow arrays, without an object for each. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from apogeemq.spark.hex_digits import in_hex

Indices = npt.NDArray[np.int64]

_INT64: Final = pa.int64()

# One large chunk after another has the same texts and lengths: what is made of those for some more rows is kept.
_MANY_ROWS: Final = 1 << 12
_KEPT_ROWS: Final = 1 << 16
_KEPT_TEXT_BYTES: Final = 4 << 20
_KEPT: Final = 8
_MAX_BORDER: Final = 2**31 - 1


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
    return pa.Array.from_buffers(kind, count, [None, _even_borders(count, length), pa.py_buffer(fields.tobytes())])


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
    octets, count = text.encode(), int(count)
    is_kept = _MANY_ROWS <= count <= _KEPT_ROWS and len(octets) * _KEPT_ROWS <= _KEPT_TEXT_BYTES
    copies = _many_kept(octets).slice(0, len(octets) * count) if is_kept else pa.py_buffer(octets * count)
    return pa.Array.from_buffers(pa.string(), count, [None, _even_borders(count, len(octets)), copies])


@lru_cache(_KEPT)
def _many_kept(octets: bytes) -> Any:
    return pa.py_buffer(octets * _KEPT_ROWS)


def _even_borders(count: int, length: int) -> Any:
    """Of so many parts that are all so long."""
    if _MANY_ROWS <= count <= _KEPT_ROWS and length * _KEPT_ROWS <= _MAX_BORDER:
        return _even_borders_kept(length).slice(0, 4 * (count + 1))
    return pa.py_buffer(np.arange(count + 1, dtype=np.int32) * np.int32(length))


@lru_cache(2 * _KEPT)
def _even_borders_kept(length: int) -> Any:
    return pa.py_buffer(np.arange(_KEPT_ROWS + 1, dtype=np.int32) * np.int32(length))


def texts_in_hex(octets: npt.NDArray[np.uint8]) -> Any:
    """The rows of a matrix as strings of upper-case hex digits."""
    count, width = octets.shape
    digits = pa.py_buffer(in_hex(octets))
    return pa.Array.from_buffers(pa.string(), count, [None, _even_borders(count, 2 * width), digits])
