"""What queues and index must know of a message: the hash of its tag, and of each of its keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apogeemq.filter.tags import MASK, java_hash
from apogeemq.model.properties import KEY_SEPARATOR, KEYS, NAME_END, TAGS, UNIQUE_KEY, decode_properties
from apogeemq.store.key_hash import COUNTING, TopicKeys

if TYPE_CHECKING:
    from mypy_extensions import i64

_UNIQUE_KEY_NAME: Final = (UNIQUE_KEY + NAME_END).encode()
_UNIQUE_KEY_LENGTH: Final = 32
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
    """Of the messages of batches to one topic.

    Most have one key, a unique one, and differ in the last digits of that alone; so do batches of one producer.
    """

    __slots__ = ("_after", "_before", "_hash_before", "_keys", "_length", "_tags_code")

    def __init__(self, keys: TopicKeys) -> None:
        self._keys = keys
        # Of the last properties that were decoded: what is before and after the digits that count, the hash of the key
        # without them, the tags code.
        self._length = -1
        self._before = b""
        self._after = b""
        self._hash_before: i64 = 0
        self._tags_code = 0

    def add(self, properties: bytes, offset: int, hashes: list[int], offsets: list[int]) -> int:
        """The tags code of a message; the hashes of its keys, and as often where it is, are put into the lists."""
        value = self._hash_if_alike(properties)
        if value == _NOT_ALIKE:
            return self._add_decoded(properties, offset, hashes, offsets)
        hashes.append(value)
        offsets.append(offset)
        return self._tags_code

    def _hash_if_alike(self, properties: bytes) -> i64:
        if len(properties) != self._length:
            return _NOT_ALIKE
        if not properties.startswith(self._before) or not properties.endswith(self._after):
            return _NOT_ALIKE
        at: i64 = len(self._before)
        end = at + COUNTING
        rest: i64 = 0
        while at < end:
            digit: i64 = properties[at]
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
            hashes.append(self._keys.hash(key))
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
        self._before, self._after = properties[: end - COUNTING], properties[end:]
        self._hash_before = self._keys.hash_before_count(unique_key)
