"""The properties of many records at once: every name and value as an Arrow array, and where those of a record are.

Reading follows `decode_properties`: an entry without a name or without a value is dropped, of two with the same name
the last counts, the last separator may be missing. Records whose properties are written in any other way are reported,
for someone to read them one by one. Pure.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from apogeemq.spark.reading.binary_fields import Indices, fields_of, flags, indices, spaced

Mask = npt.NDArray[np.bool_]
Octets = npt.NDArray[np.uint8]

_NAME_END: Final = 1
_VALUE_END: Final = 2
_PARTS: Final = 4  # of an entry: name, separator, value, separator
_MAX_EVEN_NAMES: Final = 64  # looked at one by one
_MAX_CELLS: Final = 4_000_000  # records times names; beyond, entries are sorted rather than put in a table


class PropertyTable:
    """`names` and `values` of all entries that count, in the order of records; those of record i are the ones from
    `offsets[i]` to `offsets[i + 1]`."""

    def __init__(self, names: Any, values: Any, offsets: npt.NDArray[np.int32]) -> None:
        self.names, self.values, self.offsets = names, values, offsets
        self.count = len(offsets) - 1

    def value_of(self, name: str) -> Any:
        """Of every record; null where it has none."""
        raise NotImplementedError


class _EvenTable(PropertyTable):
    """Every record has the same names in the same order, as those of one producer do."""

    def __init__(self, names: list[bytes], values: Any, count: int) -> None:
        self._places = {name.decode(): place for place, name in enumerate(names)}
        self._width = len(names)
        lengths = np.tile(np.array([len(name) for name in names], np.int32), count)
        borders = np.concatenate((np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)))
        octets = pa.py_buffer(b"".join(names) * count)
        repeated = pa.Array.from_buffers(pa.string(), len(lengths), [None, pa.py_buffer(borders), octets])
        super().__init__(repeated, values, np.arange(count + 1, dtype=np.int32) * np.int32(self._width))

    def value_of(self, name: str) -> Any:
        place = self._places.get(name)
        if place is None:
            return pa.nulls(self.count, pa.string())
        return self.values.take(indices(np.arange(place, len(self.values), self._width)))


class _UnevenTable(PropertyTable):
    def __init__(self, names: Any, values: Any, offsets: npt.NDArray[np.int32]) -> None:
        super().__init__(names, values, offsets)
        encoded = names.dictionary_encode()
        self._codes: dict[str, int] = {name: code for code, name in enumerate(encoded.dictionary.to_pylist())}
        self._code_of_entry: npt.NDArray[np.int32] = encoded.indices.to_numpy()
        self._record_of_entry = np.repeat(np.arange(self.count), np.diff(offsets))
        is_last = self._is_last()
        if not is_last.all():
            self._keep(is_last)

    def value_of(self, name: str) -> Any:
        places = np.full(self.count, -1)
        code = self._codes.get(name)
        if code is not None:
            entries = np.flatnonzero(self._code_of_entry == code)
            places[self._record_of_entry[entries]] = entries
        return self.values.take(indices(places))

    def _is_last(self) -> Mask:
        """Of the entries of one record with the same name."""
        width, entries = len(self._codes), np.arange(len(self.names))
        cells = self._record_of_entry * width + self._code_of_entry
        if self.count * width <= _MAX_CELLS:
            last = np.empty(self.count * width, np.int64)
            last[cells] = entries  # of several the last stays
            is_last: Mask = last[cells] == entries
            return is_last
        order = np.argsort(cells, kind="stable")
        is_last = np.ones(len(cells), np.bool_)
        is_last[order[:-1]] = np.diff(cells[order]) > 0
        return is_last

    def _keep(self, wanted: Mask) -> None:
        kept_before = np.concatenate((np.zeros(1, np.int32), np.cumsum(wanted, dtype=np.int32)))
        self.offsets = kept_before[self.offsets]
        self.names, self.values = self.names.filter(flags(wanted)), self.values.filter(flags(wanted))
        self._code_of_entry = self._code_of_entry[wanted]
        self._record_of_entry = self._record_of_entry[wanted]


class _Separators(NamedTuple):
    """Where names and values end. `is_real` is false where a value ends with its record."""

    at: Indices
    kinds: Octets
    is_real: Mask | None  # None: everywhere


def property_table(data: Any, starts: Indices, ends: Indices) -> PropertyTable | Mask:
    """From where the properties of each record lie in a buffer; or which records must be read one by one."""
    texts = fields_of(data, starts, ends, pa.binary())
    try:
        texts.cast(pa.string())
    except pa.ArrowInvalid:
        is_bad = np.array([not _is_text(text) for text in texts.to_pylist()], np.bool_)
        return is_bad if is_bad.any() else ~is_bad
    _, border_buffer, octet_buffer = texts.buffers()
    if octet_buffer is None or not len(texts) or not octet_buffer.size:
        nothing = pa.array([], pa.string())
        return _UnevenTable(nothing, nothing, np.zeros(len(texts) + 1, np.int32))
    borders = np.frombuffer(border_buffer, np.int32, len(texts) + 1)
    octets = np.frombuffer(octet_buffer, np.uint8, borders[-1])
    separators = _separators(octets, borders)
    names_end, values_end = separators.kinds[0::2], separators.kinds[1::2]
    if len(separators.at) % 2 or (names_end != _NAME_END).any() or (values_end != _VALUE_END).any():
        return _irregular(separators, borders)
    return _table(octet_buffer, separators, borders)


def _is_text(octets: bytes) -> bool:
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True


def _separators(octets: Octets, borders: npt.NDArray[np.int32]) -> _Separators:
    at = np.flatnonzero(octets <= _VALUE_END)
    kinds = octets[at]
    if not kinds.all():
        at, kinds = at[kinds > 0], kinds[kinds > 0]
    is_open = (borders[1:] > borders[:-1]) & (octets[borders[1:] - 1] != _VALUE_END)
    if not is_open.any():
        return _Separators(at, kinds, None)
    implied = borders[1:][is_open]
    places = np.searchsorted(at, implied)
    is_real = np.insert(np.ones(len(at), np.bool_), places, False)
    return _Separators(np.insert(at, places, implied), np.insert(kinds, places, _VALUE_END), is_real)


def _irregular(separators: _Separators, borders: npt.NDArray[np.int32]) -> Mask:
    """The records where names and values do not take turns."""
    at = separators.at if separators.is_real is None else separators.at - ~separators.is_real
    records = np.searchsorted(borders, at, "right") - 1
    first = np.searchsorted(records, np.arange(len(borders)))  # of each record, and the end
    turn = (np.arange(len(at)) - first[records]) % 2
    is_irregular: Mask = np.diff(first) % 2 == 1
    is_irregular[records[separators.kinds != turn + 1]] = True
    return is_irregular


def _table(octets: Any, separators: _Separators, borders: npt.NDArray[np.int32]) -> PropertyTable:
    name_ends, value_ends = separators.at[0::2], separators.at[1::2]
    name_starts = np.empty_like(name_ends)
    name_starts[0] = 0
    name_starts[1:] = value_ends[:-1] + (1 if separators.is_real is None else separators.is_real[1:-1:2])
    is_whole = (name_ends > name_starts) & (value_ends > name_ends + 1)
    if not is_whole.all():
        name_starts, name_ends, value_ends = name_starts[is_whole], name_ends[is_whole], value_ends[is_whole]
    even = _same_names(octets, name_starts, name_ends, borders)
    if even is not None:
        return _even_table(octets, even, name_ends + 1, value_ends, len(borders) - 1)
    parts = np.empty(_PARTS * len(name_starts), np.int32)
    parts[0::_PARTS] = name_starts
    parts[1::_PARTS] = name_ends
    parts[2::_PARTS] = name_ends + 1
    parts[3::_PARTS] = value_ends
    names, values = (spaced(octets, parts, pa.string(), _PARTS, first) for first in (0, 2))
    return _UnevenTable(names, values, np.searchsorted(name_starts, borders).astype(np.int32))


def _same_names(octets: Any, starts: Indices, ends: Indices, borders: npt.NDArray[np.int32]) -> list[bytes] | None:
    """The names of every record, if they are the same; `starts` and `ends` are those of all names."""
    count = len(borders) - 1
    width, is_rest = divmod(len(starts), count)
    if is_rest or not width or width > _MAX_EVEN_NAMES or (starts[::width] != borders[:-1]).any():
        return None
    lengths = (ends - starts).reshape(count, width)
    if (lengths != lengths[0]).any():
        return None
    names: list[bytes] = []
    for place, length in enumerate(lengths[0].tolist()):
        # One item of this length at every byte: taking some copies whole names.
        every_byte: npt.NDArray[Any] = np.ndarray((borders[-1] - length + 1,), f"V{length}", octets, strides=(1,))
        found = every_byte[starts[place::width]].tobytes()
        names.append(found[:length])
        if found != names[-1] * count:
            return None
    return names


def _even_table(octets: Any, names: list[bytes], starts: Indices, ends: Indices, count: int) -> PropertyTable:
    width = len(names)
    kept = [place for place, name in enumerate(names) if name not in names[place + 1 :]]
    if len(kept) < width:
        starts, ends = (edges.reshape(count, width)[:, kept].ravel() for edges in (starts, ends))
    return _EvenTable([names[place] for place in kept], fields_of(octets, starts, ends, pa.string()), count)
