"""The hash a message's key is indexed by: Java's of `topic#key`, without sign.

Nearly every message has a unique key of 32 hexadecimal digits: address, process and class loader of the producer,
milliseconds, a counter. The hash of a text is the sum of the hashes of its pieces, each times a power of 31, so those
of the topic and of the first 26 digits, which are the same for a quarter of a second, are remembered.
"""

from __future__ import annotations

from typing import Final

from apogeemq.filter.tags import MASK, POWERS, hash_of_ascii, unsigned_java_hash, utf16_units

UNIQUE_KEY_LENGTH: Final = 32
_HEAD_LENGTH: Final = 26
COUNTING: Final = UNIQUE_KEY_LENGTH - _HEAD_LENGTH  # digits at the end that differ from one message to the next
_MAX_REMEMBERED: Final = 8192  # heads; then all are forgotten
_SIGN_BIT: Final = 0x8000_0000
_TOO_LARGE: Final = 0x1_0000_0000

_heads: dict[str, int] = {}


class TopicKeys:
    """Hashes the keys of one topic's messages."""

    __slots__ = ("_before_unique_key", "hash_before_key")

    def __init__(self, topic: str) -> None:
        self.hash_before_key = unsigned_java_hash(topic + "#")
        self._before_unique_key = self.hash_before_key * POWERS[UNIQUE_KEY_LENGTH] & MASK

    def hash(self, key: str) -> int:
        value = self._of_any(key) if len(key) != UNIQUE_KEY_LENGTH else self._of_unique(key)
        if value >= _SIGN_BIT:
            value = _TOO_LARGE - value
            return value if value < _SIGN_BIT else 0
        return value

    def _of_unique(self, key: str) -> int:
        head = _heads.get(key[:_HEAD_LENGTH])
        if head is None or not key.isascii():
            return self._of_any(key)
        return self._before_unique_key + head + hash_of_ascii(key.encode(), _HEAD_LENGTH) & MASK

    def _of_any(self, key: str) -> int:
        length = len(key)
        if length >= len(POWERS) or not key.isascii():
            length = len(utf16_units(key))
            return self.hash_before_key * int(pow(31, length, 2**32)) + unsigned_java_hash(key) & MASK
        of_key = unsigned_java_hash(key)
        if length == UNIQUE_KEY_LENGTH:
            _remember(key, of_key)
        return self.hash_before_key * POWERS[length] + of_key & MASK


def _remember(unique_key: str, of_key: int) -> None:
    """What the head of a key adds to its hash."""
    if len(_heads) >= _MAX_REMEMBERED:
        _heads.clear()
    _heads[unique_key[:_HEAD_LENGTH]] = of_key - hash_of_ascii(unique_key.encode(), _HEAD_LENGTH) & MASK
