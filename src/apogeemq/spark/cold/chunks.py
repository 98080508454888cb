"""Records of a log that lie one after the other: which of them are what was written. Pure."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from isal.isal_zlib import crc32

from apogeemq.errors import ProtocolError
from apogeemq.model.topics import could_be_stored
from apogeemq.protocol.record import CRC_MASK, Record, decode_record, is_intact
from apogeemq.spark.reading.binary_fields import Indices, fields_of
from apogeemq.spark.reading.record_heads import MIN_RECORD_SIZE, Mask, Positions, chased, read_heads
from apogeemq.spark.reading.single_rows import UNUSUAL_FLAGS
from apogeemq.store.layout import could_be_unwritten

_CRC_AT: Final = 8
_CRC_SIZE: Final = 4


class Chunk:
    """The whole records at the beginning of some bytes of a log, `base` being the physical offset of the first byte.

    `size` is where they end; they are known by their numbers. A record is whole when it is where it says it is and its
    parts add up; what follows the first that is not is not looked at. `heads` are of all; of those that are not of the
    usual layout they say little, and `others` has them.
    """

    def __init__(self, data: bytes, base: int) -> None:
        self.data = data
        self.base = base
        self.others: dict[int, Record] = {}
        self._positions = _positions(data)
        self.heads, self.is_usual = read_heads(data, self._positions, UNUSUAL_FLAGS)
        count = self._whole_count()
        if count < len(self):
            self.keep(count)

    def _whole_count(self) -> int:
        is_elsewhere = self.heads.int64("physical_offset") != self._positions[:-1] + self.base
        count = int(np.flatnonzero(is_elsewhere)[0]) if is_elsewhere.any() else len(self)
        for number in np.flatnonzero(~self.is_usual[:count]).tolist():
            try:
                self.others[number] = decode_record(self.data, self.position_of(number))
            except ProtocolError:
                return number
        return count

    def keep(self, count: int) -> None:
        """Only so many from the beginning."""
        self._positions = self._positions[: count + 1]
        self.is_usual = self.is_usual[:count]
        self.heads = self.heads.only(np.arange(count))
        self.others = {number: record for number, record in self.others.items() if number < count}

    def __len__(self) -> int:
        return len(self._positions) - 1

    @property
    def size(self) -> int:
        return int(self._positions[-1])

    def position_of(self, number: int) -> int:
        return int(self._positions[number])

    def record(self, number: int) -> Record:
        return self.others.get(number) or decode_record(self.data, self.position_of(number))

    # -- what only checksums and texts show ------------------------------------------------------------------

    @cached_property
    def topics(self) -> tuple[Indices, list[bytes]]:
        """Of the usual records: for each the number of its topic, and the topics. After the last `keep`."""
        heads = self.heads if self.is_usual.all() else self.heads.only(self.is_usual)
        texts = fields_of(heads.data, heads.topic_starts + 1, heads.property_starts - 2, pa.binary())
        encoded = texts.dictionary_encode()
        return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()

    def strange_topics(self) -> Mask:
        """Records of topics that there cannot be."""
        is_strange = np.zeros(len(self), np.bool_)
        codes, topics = self.topics
        strange = [number for number, topic in enumerate(topics) if not could_be_stored(topic)]
        if strange:
            is_strange[self.is_usual] = np.isin(codes, strange)
        for number, record in self.others.items():
            is_strange[number] = not could_be_stored(record.topic)
        return is_strange

    def has_intact_body(self, numbers: Indices) -> Mask:
        """Of these of the usual records: whether the body is the one that was stored."""
        view, heads = memoryview(self.data), self.heads.only(numbers)
        bodies = zip(heads.body_starts.tolist(), heads.topic_starts.tolist(), strict=True)
        found = np.array([crc32(view[start:end]) for start, end in bodies], np.uint32)
        every_byte: npt.NDArray[Any] = np.ndarray((len(view) - _CRC_SIZE + 1,), ">u4", self.data, strides=(1,))
        is_intact: Mask = (found & CRC_MASK) == every_byte[self._positions[numbers] + _CRC_AT]
        return is_intact

    def is_torn(self, number: int) -> bool:
        """Whether a record at the very end of the log may not have been written to its end."""
        record = self.record(number)
        texts = record.topic + b"\1\1" + record.properties
        return could_be_unwritten(texts) or not could_be_stored(record.topic) or not is_intact(record)


def _positions(data: bytes) -> Positions:
    """Where records begin that end within the data, as their sizes say, and where the last one ends."""
    found = chased(data)
    too_small = np.flatnonzero(np.diff(found) < MIN_RECORD_SIZE)
    if len(too_small):
        found = found[: too_small[0] + 1]
    return found[: np.searchsorted(found, len(data), "right")]
