"""What queues and index must know of a message: the hash of its tag, and of each of its keys."""

from __future__ import annotations

from typing import Final

from apogeemq.filter.tags import MASK, POWERS, java_hash, unsigned_java_hash
from apogeemq.model.properties import KEY_SEPARATOR, KEYS, NAME_END, TAGS, UNIQUE_KEY, decode_properties
from apogeemq.store.key_hash import key_hash

_UNIQUE_KEY_NAME: Final = (UNIQUE_KEY + NAME_END).encode()
_UNIQUE_KEY_LENGTH: Final = 32
_COUNTING: Final = 6  # digits at the end of a unique key; those before are the same for a quarter of a second
_COUNTING_POWER: Final = POWERS[_COUNTING]
_SIGN_BIT: Final = 0x8000_0000
_TOO_LARGE: Final = 0x1_0000_0000
_NOT_ALIKE: Final = -1


def index_keys(properties: dict[str, str]) -> list[str]:
    """What a message is indexed by: its unique key, then each of its keys."""
    unique, keys = properties.get(UNIQUE_KEY), properties.get(KEYS)
    if not keys:
        return [unique] if unique else []
    several = [key for key in keys.split(KEY_SEPARATOR) if key] if KEY_SEPARATOR in keys else [keys]
    return [unique, *several] if unique else several


class BatchMarks:
    """Of the messages of a batch. Most have one key, a unique one, and differ in the last digits of that alone."""

    __slots__ = ("_after", "_before", "_hash_before", "_length", "_tags_code", "_topic")

    def __init__(self, topic: str) -> None:
        self._topic = topic
        # Of the last properties that were decoded: what is before and after the digits that count, the hash of the key
        # without them, the tags code.
        self._length = -1
        self._before = b""
        self._after = b""
        self._hash_before = 0
        self._tags_code = 0

    def add(self, properties: bytes, offset: int, hashes: list[int], offsets: list[int]) -> int:
        """The tags code of a message; the hashes of its keys, and as often where it is, are put into the lists."""
        value = self._hash_if_alike(properties)
        if value == _NOT_ALIKE:
            return self._add_decoded(properties, offset, hashes, offsets)
        hashes.append(value)
        offsets.append(offset)
        return self._tags_code

    def _hash_if_alike(self, properties: bytes) -> int:
        at = len(self._before)
        end = at + _COUNTING
        if len(properties) != self._length or properties[:at] != self._before or properties[end:] != self._after:
            return _NOT_ALIKE
        rest = 0
        while at < end:
            digit = properties[at]
            if digit < 0x30 or digit > 0x46:  # from 0 to F: nothing that ends a property or is more than one byte
                return _NOT_ALIKE
            rest = rest * 31 + digit
            at += 1
        value = self._hash_before + rest & MASK
        if value < _SIGN_BIT:
            return value
        value = _TOO_LARGE - value  # Java's absolute value, and 0 where that has none
        return value if value < _SIGN_BIT else 0

    def _add_decoded(self, properties: bytes, offset: int, hashes: list[int], offsets: list[int]) -> int:
        decoded = decode_properties(properties.decode())
        keys, tags = index_keys(decoded), decoded.get(TAGS)
        for key in keys:
            hashes.append(key_hash(self._topic, key))
            offsets.append(offset)
        tags_code = java_hash(tags) if tags else 0
        if len(keys) == 1 and len(keys[0]) == _UNIQUE_KEY_LENGTH and decoded.get(UNIQUE_KEY) == keys[0]:
            self._remember(properties, keys[0], tags_code)
        return tags_code

    def _remember(self, properties: bytes, unique_key: str, tags_code: int) -> None:
        entry = _UNIQUE_KEY_NAME + unique_key.encode()
        end = properties.find(entry) + len(entry)
        if not unique_key.isascii() or properties.count(_UNIQUE_KEY_NAME) != 1:
            return
        self._length, self._tags_code = len(properties), tags_code
        self._before, self._after = properties[: end - _COUNTING], properties[end:]
        of_head = unsigned_java_hash(f"{self._topic}#{unique_key[:-_COUNTING]}")
        self._hash_before = of_head * _COUNTING_POWER & MASK
