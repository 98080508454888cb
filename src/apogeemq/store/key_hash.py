"""The hash a message's key is indexed by: Java's of `topic#key`, without sign.

Nearly every message has a unique key of 32 hexadecimal digits: address, process and class loader of the producer,
milliseconds, a counter. The hash of a text is the sum of the hashes of its pieces, each times a power of 31, so it is
put together from remembered ones: 26 digits that are the same for a quarter of a second, then 3 and 3.
"""

from __future__ import annotations

from typing import Final

from apogeemq.filter.tags import MASK, POWERS, unsigned_java_hash, utf16_units

_UNIQUE_KEY_LENGTH: Final = 32
_HEAD_LENGTH: Final = 26
COUNTING: Final = _UNIQUE_KEY_LENGTH - _HEAD_LENGTH  # digits at the end that differ from one message to the next
_MAX_REMEMBERED: Final = 8192  # in each of the tables below; one that is full is begun anew
_SIGN_BIT: Final = 0x8000_0000
_TOO_LARGE: Final = 0x1_0000_0000

_topics: dict[str, int] = {}  # of `topic#`
_topics_before_unique_key: dict[str, int] = {}  # the same, times the power for the 32 digits that follow; and so on:
_heads: dict[str, int] = {}
_firsts: dict[str, int] = {}
_seconds: dict[str, int] = {}


def key_hash(topic: str, key: str) -> int:
    if len(key) == _UNIQUE_KEY_LENGTH and (head := _heads.get(key[:26])) is not None:
        try:
            value = (_topics_before_unique_key[topic] + head + _firsts[key[26:29]] + _seconds[key[29:]]) & MASK
        except KeyError:
            value = _of_any(topic, key)
    else:
        value = _of_any(topic, key)
    if value >= _SIGN_BIT:
        value = _TOO_LARGE - value
        return value if value < _SIGN_BIT else 0
    return value


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
        _remember_pieces(key, of_key)
    return before * POWERS[length] + of_key & MASK


def _remember_pieces(key: str, of_key: int) -> None:
    first, second = key[26:29], key[29:]
    of_first, of_second = _firsts.get(first), _seconds.get(second)
    if of_first is None:
        of_first = _remember(_firsts, first, unsigned_java_hash(first) * POWERS[3] & MASK)
    if of_second is None:
        of_second = _remember(_seconds, second, unsigned_java_hash(second))
    _remember(_heads, key[:26], of_key - of_first - of_second & MASK)


def _remember(table: dict[str, int], text: str, value: int) -> int:
    if len(table) >= _MAX_REMEMBERED:
        table.clear()
    table[text] = value
    return value
