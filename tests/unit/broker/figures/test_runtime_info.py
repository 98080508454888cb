"""How figures are written for people."""

from __future__ import annotations

import pytest

from apogeemq.broker.figures.runtime_info import readable_size


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1024**2 - 1, "1024.0 KiB"),
        (1024**3, "1.0 GiB"),
        (5 * 1024**4, "5.0 TiB"),
        (2**63 - 1, "8.0 EiB"),
    ],
)
def test_sizes_as_apache_writes_them(size: int, text: str) -> None:
    assert readable_size(size) == text
