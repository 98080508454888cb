"""Tags: Java's hash of them, and the filter a subscription makes of an expression. Pure."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=65_536)
def java_hash(text: str) -> int:
    """`String.hashCode()`: over UTF-16 code units, in 32 bits with sign."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value
