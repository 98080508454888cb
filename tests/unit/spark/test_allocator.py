"""Large blocks that come and go cost no new pages each time."""

from __future__ import annotations

import subprocess
import sys

import pytest

from apogeemq.spark.allocator import keep_large_blocks

_PROGRAM = """
import resource
from apogeemq.spark.allocator import keep_large_blocks
keep_large_blocks()
def read_chunk():
    b"".join([b"x" * 350_000 for _ in range(12)])
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    read_chunk()
before = faults()
for _ in range(20):
    read_chunk()
print(faults() - before)
"""
_PAGES_OF_A_CHUNK = 2 * 12 * 350_000 // 4096


@pytest.mark.skipif(not keep_large_blocks(), reason="the C library has no such setting")
def test_large_blocks_are_kept() -> None:
    """In a process of its own: what others have allocated would count."""
    faults = int(subprocess.check_output([sys.executable, "-c", _PROGRAM], text=True))
    assert faults < _PAGES_OF_A_CHUNK  # without it about twenty times as many
