"""The hash a message's key is indexed by: Java's of `topic#key`, without sign.

Nearly every message has a unique key of 32 hexadecimal digits: address, process and class loader of the producer,
milliseconds, a counter. The hash of a text is the sum of the hashes of its pieces, each times a power of 31, so those
of the topic and of the first 26 digits, which are the same for a quarter of a second, are remembered.
"""

from __future__ import annotations

from typing import Final

from apogeemq.filter.tags import MASK, POWERS, hash_of_ascii, unsigned_java_hash, utf16_units

_UNIQUE_KEY_LENGTH: Final = 32
_HEAD_LENGTH: Final = 26
COUNTING: Final = _UNIQUE_KEY_LENGTH - _HEAD_LENGTH  # digits at the end that differ from one message to the next
_MAX_REMEMBERED: Final = 8192  # in each of the tables below; one that is full is begun anew
_SIGN_BIT: Final = 0x8000_0000
_TOO_LARGE: Final = 0x1_0000_0000

_topics: dict[str, int] = {}  # of `topic#`
_topics_before_unique_key: dict[str, int] = {}  # the same, times the power for the 32 digits that follow
_heads: dict[str, int] = {}


def key_hash(topic: str, key: str) -> int:
    value = _of_any(topic, key) if len(key) != _UNIQUE_KEY_LENGTH else _of_unique(topic, key)
    if value >= _SIGN_BIT:
        value = _TOO_LARGE - value
        return value if value < _SIGN_BIT else 0
    return value


def _of_unique(topic: str, key: str) -> int:
    before, head = _topics_before_unique_key.get(topic), _heads.get(key[:_HEAD_LENGTH])
    if before is None or head is None or not key.isascii():
        return _of_any(topic, key)
    return before + head + hash_of_ascii(key.encode(), _HEAD_LENGTH) & MASK


def hash_before_count(topic: str, unique_key: str) -> int:
    """What all digits but the last COUNTING of a unique key, which has only ASCII characters, add to its hash."""
    before, head = _topics_before_unique_key.get(topic), _heads.get(unique_key[:_HEAD_LENGTH])
    if before is None or head is None:
        of_head = unsigned_java_hash(f"{topic}#{unique_key[:_HEAD_LENGTH]}")
        return of_head * POWERS[COUNTING] & MASK
    return before + head & MASK


def _of_any(topic: str, key: str) -> int:
    before = _topics.get(topic)
    if before is None:
        before = _remember(_topics, topic, unsigned_java_hash(topic + "#"))
    length = len(key)
    if length >= len(POWERS) or not key.isascii():
        length = len(utf16_units(key))
        return before * int(pow(31, length, 2**32)) + unsigned_java_hash(key) & MASK
    of_key = unsigned_java_hash(key)
    if length == _UNIQUE_KEY_LENGTH:
        _remember(_topics_before_unique_key, topic, before * POWERS[length] & MASK)
        of_counting = hash_of_ascii(key.encode(), _HEAD_LENGTH)
        _remember(_heads, key[:_HEAD_LENGTH], of_key - of_counting & MASK)
    return before * POWERS[length] + of_key & MASK


def _remember(table: dict[str, int], text: str, value: int) -> int:
    if len(table) >= _MAX_REMEMBERED:
        table.clear()
    table[text] = value
    return value
