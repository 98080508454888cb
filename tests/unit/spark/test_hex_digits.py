"""Bytes in hex: every byte, at every place of a row."""

from __future__ import annotations

import numpy as np
import pytest

from apogeemq.spark.hex_digits import in_hex


@pytest.mark.parametrize("width", [1, 2, 16])
def test_every_byte_has_two_digits(width: int) -> None:
    octets = np.arange(256, dtype=np.uint8).reshape(-1, width)
    assert [bytes(row) for row in in_hex(octets)] == [bytes(row).hex().upper().encode() for row in octets]


def test_no_rows_have_no_digits() -> None:
    assert in_hex(np.zeros((0, 16), np.uint8)).shape == (0, 32)
