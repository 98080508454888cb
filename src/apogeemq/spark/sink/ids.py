"""Ids of messages that are the same whenever the same row is written again. They take the place of the random ids that
producers give (the property UNIQ_KEY, 32 hexadecimal digits), so that whoever reads sees them as the message's id.

::

    tag 2        of query and epoch: tells a sink's own messages from others' at a glance
    hash 8
    zeros 4      where other producers' ids have a time of the month, which Apache's tools search from
    hash 2

Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.uint8]  # one row of ID_SIZE bytes for each message

ID_SIZE: Final = 16
TAG_SIZE: Final = 2
_HASH: Final = slice(2, 10)
_REST: Final = slice(14, 16)
_DIGEST_SIZE: Final = 10
_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)


class IdScope:
    """Ids of one query, and of one epoch of it where epochs are known."""

    def __init__(self, query_id: str, epoch: int | None = None) -> None:
        self._seed = _digest(16, query_id, "" if epoch is None else str(epoch))
        self.tag = self._seed[:TAG_SIZE]

    def of_keys(self, keys: Sequence[bytes]) -> Ids:
        """One for each row's key."""
        blake2b, seed, size = hashlib.blake2b, self._seed, _DIGEST_SIZE
        digests = b"".join([blake2b(key, digest_size=size, key=seed).digest() for key in keys])
        table = np.frombuffer(digests, dtype=np.uint8).reshape(-1, _DIGEST_SIZE)
        return self._laid_out(table[:, :8], table[:, 8:])

    def of_positions(
        self,
        sources: Sequence[tuple[str, str, int]],
        source_numbers: npt.NDArray[np.int64],
        offsets: npt.NDArray[np.int64],
        occurrences: npt.NDArray[np.int64],
    ) -> Ids:
        """One for each row, from the topic, broker and queue (`sources`, by number) and the offset of its source
        message, and how many rows of that message came before it. Those of one queue never collide as long as each
        message gives one row."""
        digests = [_digest(_DIGEST_SIZE, self._seed.hex(), *map(str, source)) for source in sources]
        bases = np.array([int.from_bytes(digest[:8]) for digest in digests], dtype=np.uint64)
        tails = np.array([int.from_bytes(digest[8:]) for digest in digests], dtype=np.uint16)
        with np.errstate(over="ignore"):
            mixed = _mixed(offsets.astype(np.uint64) + bases[source_numbers])
            repeated = occurrences > 0
            if repeated.any():
                mixed[repeated] = _mixed(mixed[repeated] + occurrences[repeated].astype(np.uint64) * _GOLDEN)
        low = tails[source_numbers] ^ occurrences.astype(np.uint16)
        return self._laid_out(
            mixed.astype(">u8").view(np.uint8).reshape(-1, 8), low.astype(">u2").view(np.uint8).reshape(-1, 2)
        )

    def _laid_out(self, first: Ids, rest: Ids) -> Ids:
        ids = np.zeros((len(first), ID_SIZE), dtype=np.uint8)
        ids[:, :TAG_SIZE] = np.frombuffer(self.tag, dtype=np.uint8)
        ids[:, _HASH] = first
        ids[:, _REST] = rest
        return ids


def repeated_in(ids: Ids) -> int:
    """How many of them are there for the second time, or more."""
    if len(ids) < 2:
        return 0
    halves = np.ascontiguousarray(ids[:, _HASH]).view(">u8").ravel()
    if len(np.unique(halves)) == len(halves):
        return 0
    return len(ids) - len(np.unique(ids, axis=0))


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Another number for each number (splitmix64's last step, which can be undone: no two become one)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: npt.NDArray[np.uint64] = values ^ (values >> np.uint64(31))
    return mixed


def _digest(size: int, *texts: str) -> bytes:
    state = hashlib.blake2b(digest_size=size)
    for text in texts:
        data = text.encode()
        state.update(len(data).to_bytes(4))
        state.update(data)
    return state.digest()
