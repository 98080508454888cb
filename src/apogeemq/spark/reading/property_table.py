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
import pyarrow.compute as pc

from apogeemq.spark.reading.binary_fields import (
    Indices,
    equally_long,
    fields_of,
    flags,
    indices,
    numbers,
    repeated,
    spaced,
)
from apogeemq.spark.reading.carried_properties import OF_COLUMNS, WAIT, WAITS

Mask = npt.NDArray[np.bool_]
Octets = npt.NDArray[np.uint8]

_NAME_END: Final = 1
_VALUE_END: Final = 2
_PARTS: Final = 4  # of an entry: name, separator, value, separator
_NOT_ASCII: Final = 0x80
_MAX_EVEN_NAMES: Final = 64  # looked at one by one
_NO_TEXTS: Final = pa.array([], pa.string())
_ROWS_AT_ONCE: Final = 32
_MAX_CELLS: Final = 4_000_000  # records times names; beyond, entries are sorted rather than put in a table


class Entries(NamedTuple):
    """`names` and `values` in the order of records; those of record i are the ones from `offsets[i]` to
    `offsets[i + 1]`."""

    names: Any
    values: Any
    offsets: npt.NDArray[np.int32]

    def only(self, wanted: Mask) -> Entries:
        kept_before = np.concatenate((np.zeros(1, np.int32), np.cumsum(wanted, dtype=np.int32)))
        kept = flags(wanted)
        return Entries(self.names.filter(kept), self.values.filter(kept), kept_before[self.offsets])


class PropertyTable:
    def __init__(self, count: int) -> None:
        self.count = count

    def value_of(self, name: str) -> Any:
        """Of every record; null where it has none."""
        raise NotImplementedError

    def entries(self, *, has_all: bool) -> Entries:
        """Those that count: all of them, or those that are carried."""
        raise NotImplementedError


class _EvenTable(PropertyTable):
    """Every record has the same names in the same order, as those of one producer do."""

    def __init__(self, names: list[str], count: int) -> None:
        super().__init__(count)
        self._names = names

    def value_of(self, name: str) -> Any:
        return self._column(self._names.index(name)) if name in self._names else pa.nulls(self.count, pa.string())

    def _column(self, place: int) -> Any:
        raise NotImplementedError

    def _all_values(self) -> Any:
        """Those of the first record, then those of the second …"""
        raise NotImplementedError

    def entries(self, *, has_all: bool) -> Entries:
        if has_all:
            return self._entries(list(range(len(self._names))))
        kept = [place for place, name in enumerate(self._names) if name not in OF_COLUMNS]
        waits = self._who_waits() if WAIT in self._names else None
        if waits is None or not waits.any():
            return self._entries(kept)
        place = self._names.index(WAIT)
        if waits.all():
            return self._entries([one for one in kept if one != place])
        is_kept = np.ones((self.count, len(kept)), np.bool_)
        is_kept[:, kept.index(place)] = ~waits
        return self._entries(kept).only(is_kept.ravel())

    def _who_waits(self) -> Mask:
        waits: Mask = pc.equal(self.value_of(WAIT), WAITS).to_numpy(zero_copy_only=False)
        return waits

    def _entries(self, places: list[int]) -> Entries:
        width = len(places)
        offsets = np.arange(self.count + 1, dtype=np.int32) * np.int32(width)
        if not width:
            return Entries(_NO_TEXTS, _NO_TEXTS, offsets)
        texts = [self._names[place].encode() for place in places]
        lengths = np.tile(np.array(list(map(len, texts)), np.int32), self.count)
        borders = np.concatenate((np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)))
        octets = pa.py_buffer(b"".join(texts) * self.count)
        names = pa.Array.from_buffers(pa.string(), len(lengths), [None, pa.py_buffer(borders), octets])
        return Entries(names, self._values_at(places), offsets)

    def _values_at(self, places: list[int]) -> Any:
        """Those of the first record, then those of the second …"""
        if len(places) == len(self._names):
            return self._all_values()
        columns = [self._column(place) for place in places]
        return columns[0] if len(columns) == 1 else _interleaved(columns)


class _SpacedTable(_EvenTable):
    """`starts` and `ends` say where the values of the first record lie, then those of the second …"""

    def __init__(self, names: list[str], octets: Any, starts: Indices, ends: Indices) -> None:
        super().__init__(names, len(starts) // len(names))
        self._octets = octets
        self._starts = starts
        self._ends = ends

    def _column(self, place: int) -> Any:
        width = len(self._names)
        return fields_of(self._octets, self._starts[place::width], self._ends[place::width], pa.string())

    def _all_values(self) -> Any:
        return fields_of(self._octets, self._starts, self._ends, pa.string())


class _UniformTable(_EvenTable):
    """Every record's properties are of the same length, with names and separators at the same places: what differs are
    values of equal length, as ids have. `parts` says where the values are within `texts`, which has a row for each."""

    def __init__(self, names: list[str], texts: Octets, parts: list[tuple[int, int]], is_same: Mask) -> None:
        super().__init__(names, len(texts))
        self._texts = texts
        self._parts = parts
        self._is_same = is_same  # by column of the texts

    def _column(self, place: int) -> Any:
        text = self._text_of_all(place)
        if text is not None:
            return repeated(text, self.count)
        start, end = self._parts[place]
        return equally_long(self._texts, start, self._texts.shape[1], end - start, self.count, pa.string())

    def _text_of_all(self, place: int) -> str | None:
        """None where records differ."""
        start, end = self._parts[place]
        is_same = self._is_same[start:end].all()
        return self._texts[0, start:end].tobytes().decode() if is_same else None

    def _who_waits(self) -> Mask:
        text = self._text_of_all(self._names.index(WAIT))
        return np.full(self.count, text == WAITS) if text is not None else super()._who_waits()

    def _all_values(self) -> Any:
        return _interleaved([self._column(place) for place in range(len(self._parts))])


def _interleaved(columns: list[Any]) -> Any:
    count = len(columns[0])
    order = np.arange(count * len(columns)).reshape(len(columns), count).T.ravel()
    return pa.concat_arrays(columns).take(numbers(order, pa.int64()))


class _UnevenTable(PropertyTable):
    def __init__(self, names: Any, values: Any, offsets: npt.NDArray[np.int32]) -> None:
        super().__init__(len(offsets) - 1)
        self._all = Entries(names, values, offsets)
        encoded = names.dictionary_encode()
        self._codes: dict[str, int] = {name: code for code, name in enumerate(encoded.dictionary.to_pylist())}
        self._code_of_entry: npt.NDArray[np.int32] = encoded.indices.to_numpy()
        self._record_of_entry = np.repeat(np.arange(self.count), np.diff(offsets))
        is_last = self._is_last()
        if not is_last.all():
            self._keep(is_last)

    def entries(self, *, has_all: bool) -> Entries:
        if has_all:
            return self._all
        left_out = [code for name, code in self._codes.items() if name in OF_COLUMNS]
        is_carried = ~np.isin(self._code_of_entry, left_out)
        if WAIT in self._codes:
            says_wait = self._code_of_entry == self._codes[WAIT]
            is_carried &= ~(says_wait & pc.equal(self._all.values, WAITS).to_numpy(zero_copy_only=False))
        return self._all.only(is_carried)

    def value_of(self, name: str) -> Any:
        places = np.full(self.count, -1)
        code = self._codes.get(name)
        if code is not None:
            entries = np.flatnonzero(self._code_of_entry == code)
            places[self._record_of_entry[entries]] = entries
        return self._all.values.take(indices(places))

    def _is_last(self) -> Mask:
        """Of the entries of one record with the same name."""
        width, entries = len(self._codes), np.arange(len(self._all.names))
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
        self._all = self._all.only(wanted)
        self._code_of_entry = self._code_of_entry[wanted]
        self._record_of_entry = self._record_of_entry[wanted]


class _Separators(NamedTuple):
    """Where names and values end. `is_real` is false where a value ends with its record."""

    at: Indices
    kinds: Octets
    is_real: Mask | None  # None: everywhere


def property_table(data: Any, starts: Indices, ends: Indices) -> PropertyTable | Mask:
    """From where the properties of each record lie in a buffer; or which records must be read one by one."""
    uniform = _uniform_table(data, starts, ends)
    if uniform is not None:
        return uniform
    texts = fields_of(data, starts, ends, pa.binary())
    try:
        texts.cast(pa.string())
    except pa.ArrowInvalid:
        is_bad = np.array([not _is_text(text) for text in texts.to_pylist()], np.bool_)
        return is_bad if is_bad.any() else ~is_bad
    _, border_buffer, octet_buffer = texts.buffers()
    if octet_buffer is None or not len(texts) or not octet_buffer.size:
        return _UnevenTable(_NO_TEXTS, _NO_TEXTS, np.zeros(len(texts) + 1, np.int32))
    borders = np.frombuffer(border_buffer, np.int32, len(texts) + 1)
    octets = np.frombuffer(octet_buffer, np.uint8, borders[-1])
    separators = _separators(octets, borders)
    names_end, values_end = separators.kinds[0::2], separators.kinds[1::2]
    if len(separators.at) % 2 or (names_end != _NAME_END).any() or (values_end != _VALUE_END).any():
        return _irregular(separators, borders)
    return _table(octet_buffer, separators, borders)


def _uniform_table(data: Any, starts: Indices, ends: Indices) -> PropertyTable | None:
    """None when the texts differ in more than values of equal length, or are not plain ASCII."""
    count = len(starts)
    width = int(ends[0] - starts[0]) if count else 0
    if not width or ((ends - starts) != width).any():
        return None
    texts = _texts_side_by_side(data, starts, width).view(np.uint8).reshape(count, width)
    first, any_bits = texts[0], _of_columns(np.bitwise_or, texts)
    is_same: Mask = any_bits == _of_columns(np.bitwise_and, texts)
    ends_at = np.flatnonzero(first <= _VALUE_END).tolist()
    if not ends_at or len(ends_at) % 2 or ends_at[-1] != width - 1 or not is_same[ends_at].all():
        return None
    names: list[str] = []
    parts: list[tuple[int, int]] = []
    start = 0
    for name_end, value_end in zip(ends_at[0::2], ends_at[1::2], strict=True):
        is_whole = name_end > start and value_end > name_end + 1 and is_same[start:name_end].all()
        if not is_whole or (first[name_end], first[value_end]) != (_NAME_END, _VALUE_END):
            return None
        names.append(first[start:name_end].tobytes().decode("latin-1"))
        parts.append((name_end + 1, value_end))
        start = value_end + 1
    has_no_other_end = _of_columns(np.minimum, texts)[~is_same] > _VALUE_END
    if (any_bits >= _NOT_ASCII).any() or not has_no_other_end.all() or len(set(names)) < len(names):
        return None
    return _UniformTable(names, texts, parts, is_same)


def _texts_side_by_side(data: Any, starts: Indices, width: int) -> npt.NDArray[Any]:
    step = int(starts[1] - starts[0]) if len(starts) > 1 else width
    if (np.diff(starts) == step).all():
        texts: npt.NDArray[Any] = np.ndarray((len(starts),), f"V{width}", data, int(starts[0]), (step,))
        return texts.copy()
    every_byte: npt.NDArray[Any] = np.ndarray((data.size - width + 1,), f"V{width}", data, strides=(1,))
    return np.asarray(every_byte[starts])


def _of_columns(reduced_by: np.ufunc, texts: Octets) -> Octets:
    """What each column comes to. Many rows are taken as one long row first, of which numpy makes short work."""
    count, width = texts.shape
    whole = count - count % _ROWS_AT_ONCE
    long_rows = texts[:whole].reshape(-1, _ROWS_AT_ONCE * width)
    if not len(long_rows):
        return np.asarray(reduced_by.reduce(texts, axis=0))
    left = reduced_by.reduce(long_rows, axis=0).reshape(_ROWS_AT_ONCE, width)
    return np.asarray(reduced_by.reduce(np.concatenate((left, texts[whole:])), axis=0))


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
    return _SpacedTable([names[place].decode() for place in kept], octets, starts, ends)
