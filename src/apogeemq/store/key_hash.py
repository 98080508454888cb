"""The hash a message's key is indexed by: Java's of `topic#key`, without sign.

Nearly every message has a unique key of 32 hexadecimal digits: address, process and class loader of the producer,
milliseconds, a counter. The hash of a text is the sum of the hashes of its pieces, each times a power of 31, so it is
put together from remembered ones: 26 digits that are the same for a quarter of a second, then 3 and 3.
"""

from __future__ import annotations

from typing import Final

from apogeemq.filter.tags import MASK, POWERS, unsigned_java_hash, utf16_units

_UNIQUE_KEY_LENGTH: Final = 32
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


def _of_any(topic: str, key: str) -> int:
    before = _topics.get(topic)
    if before is None:
        before = _remember(_topics, topic, unsigned_java_hash(topic + "#"))
    if len(key) == _UNIQUE_KEY_LENGTH and key.isascii():
        _remember(_topics_before_unique_key, topic, before * POWERS[32] & MASK)
        pieces = ((_heads, 0, 26), (_firsts, 26, 29), (_seconds, 29, 32))
        return before * POWERS[32] + sum(_piece(table, key, start, end) for table, start, end in pieces) & MASK
    length = len(key) if key.isascii() else len(utf16_units(key))
    power = POWERS[length] if length < len(POWERS) else pow(31, length, 2**32)
    return before * power + unsigned_java_hash(key) & MASK


def _piece(table: dict[str, int], key: str, start: int, end: int) -> int:
    """The share of a piece in the hash of a unique key."""
    piece = key[start:end]
    found = table.get(piece)
    if found is None:
        found = _remember(table, piece, unsigned_java_hash(piece) * POWERS[_UNIQUE_KEY_LENGTH - end] & MASK)
    return found


def _remember(table: dict[str, int], text: str, value: int) -> int:
    if len(table) >= _MAX_REMEMBERED:
        table.clear()
    table[text] = value
    return value
