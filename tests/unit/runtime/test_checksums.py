"""CRC-32 is that of the standard library, whoever computes it."""

from __future__ import annotations

import zlib

from hypothesis import given
from hypothesis import strategies as st

from apogeemq.runtime.checksums import crc32


@given(st.binary(max_size=600))
def test_any_bytes(data: bytes) -> None:
    assert crc32(data) == zlib.crc32(data)
