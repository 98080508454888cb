"""Java's hash of strings: tags are filtered by it, keys are found by it. Pure."""

from __future__ import annotations

from functools import lru_cache
from operator import mul
from struct import unpack
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mypy_extensions import i64

MASK: Final = 0xFFFFFFFF
_SIGN_BIT: Final = 0x8000_0000
_PIECE: Final = 256
POWERS: Final = tuple(pow(31, exponent, 2**32) for exponent in range(_PIECE + 1))


@lru_cache(maxsize=65_536)
def java_hash(text: str) -> int:
    """`String.hashCode()`: over UTF-16 code units, in 32 bits with sign."""
    value = unsigned_java_hash(text)
    return value - 0x1_0000_0000 if value & _SIGN_BIT else value


def unsigned_java_hash(text: str) -> int:
    """The same 32 bits without sign, and without remembering the text.

    The hash of `a + b` is the hash of `a` times POWERS[length of b in code units], plus that of `b`.
    """
    if text.isascii():
        return hash_of_ascii(text.encode())
    units = utf16_units(text)
    value = 0
    for start in range(0, len(units), _PIECE):
        piece = units[start : start + _PIECE]
        value = value * POWERS[len(piece)] + sum(map(mul, reversed(piece), POWERS)) & MASK
    return value


def hash_of_ascii(text: bytes, start: int = 0) -> int:
    """`unsigned_java_hash` from a position on. Character by character: compiled, that makes no object."""
    value: i64 = 0
    at: i64 = start
    end: i64 = len(text)
    while at < end:
        value = value * 31 + text[at] & MASK
        at += 1
    return int(value)


def utf16_units(text: str) -> tuple[int, ...]:
    data = text.encode("utf-16-le", "surrogatepass")
    return unpack(f"<{len(data) // 2}H", data)
