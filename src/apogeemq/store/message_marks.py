"""What queues and index must know of a message: the hash of its tag, and of each of its keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter, write_i32_be, write_i64_be

from apogeemq.filter.tags import MASK, java_hash
from apogeemq.model.properties import KEY_SEPARATOR, KEYS, NAME_END, TAGS, UNIQUE_KEY, decode_properties
from apogeemq.store.key_hash import COUNTING, UNIQUE_KEY_LENGTH, TopicKeys

if TYPE_CHECKING:
    from mypy_extensions import i64

_UNIQUE_KEY_NAME: Final = (UNIQUE_KEY + NAME_END).encode()
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

    Most have one key, a unique one, and differ in that alone; those of one producer in its last digits.
    """

    __slots__ = (
        "_after_key",
        "_before_count",
        "_before_key",
        "_hash_before_count",
        "_hash_before_key",
        "_keys",
        "_length",
        "_tags_code",
    )

    def __init__(self, keys: TopicKeys) -> None:
        self._keys = keys
        self._hash_before_key: i64 = keys.hash_before_key
        # Of the last properties that were decoded: what is before and after the unique key, and the tags code.
        self._length = -1
        self._before_key = b""
        self._after_key = b""
        self._tags_code: i64 = 0
        # Of the last key: what is before the digits that count, and the hash of that.
        self._before_count = b""
        self._hash_before_count: i64 = 0

    def add(self, properties: bytes, offset: i64, hashed_keys: BytesWriter) -> i64:
        """The tags code of a message; its keys are written as `layout.HASHED_KEY` has them."""
        value = self._hash_if_alike(properties)
        if value == _NOT_ALIKE:
            return self._add_decoded(properties, offset, hashed_keys)
        write_i32_be(hashed_keys, int(value))
        write_i64_be(hashed_keys, offset)
        return self._tags_code

    def _hash_if_alike(self, properties: bytes) -> i64:
        if len(properties) != self._length or not properties.endswith(self._after_key):
            return _NOT_ALIKE
        is_alike = properties.startswith(self._before_count) or (
            properties.startswith(self._before_key) and self._remember_before_count(properties)
        )
        if not is_alike:
            return _NOT_ALIKE
        value = self._hash_on(properties, len(self._before_count), COUNTING, self._hash_before_count)
        if value < _SIGN_BIT:
            return value
        value = _TOO_LARGE - value  # Java's absolute value, and 0 where that has none
        return value if value < _SIGN_BIT else 0

    def _hash_on(self, properties: bytes, at: i64, count: i64, value: i64) -> i64:
        """The hash of what `value` is the hash of and some digits that follow."""
        end = at + count
        while at < end:
            digit: i64 = properties[at]
            if digit <= 0x20 or digit >= 0x7F:  # it may end a property, or be one of several bytes of a character
                return _NOT_ALIKE
            value = value * 31 + digit & MASK
            at += 1
        return value

    def _add_decoded(self, properties: bytes, offset: i64, hashed_keys: BytesWriter) -> i64:
        decoded = decode_properties(properties.decode())
        keys, tags = index_keys(decoded), decoded.get(TAGS)
        for key in keys:
            write_i32_be(hashed_keys, self._keys.hash(key))
            write_i64_be(hashed_keys, offset)
        tags_code = java_hash(tags) if tags else 0
        if len(keys) == 1 and len(keys[0]) == UNIQUE_KEY_LENGTH and decoded.get(UNIQUE_KEY) == keys[0]:
            self._remember(properties, keys[0], tags_code)
        return tags_code

    def _remember(self, properties: bytes, unique_key: str, tags_code: int) -> None:
        entry = _UNIQUE_KEY_NAME + unique_key.encode()
        end = properties.find(entry) + len(entry)
        if not unique_key.isascii() or properties.count(_UNIQUE_KEY_NAME) != 1:
            return
        self._length, self._tags_code = len(properties), tags_code
        self._before_key, self._after_key = properties[: end - UNIQUE_KEY_LENGTH], properties[end:]
        if not self._remember_before_count(properties):
            self._length = -1

    def _remember_before_count(self, properties: bytes) -> bool:
        """False when its unique key has characters that such keys do not have."""
        at = len(self._before_key)
        value = self._hash_on(properties, at, UNIQUE_KEY_LENGTH - COUNTING, self._hash_before_key)
        if value == _NOT_ALIKE:
            return False
        self._before_count, self._hash_before_count = properties[: at + UNIQUE_KEY_LENGTH - COUNTING], value
        return True
