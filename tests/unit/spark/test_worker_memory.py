"""What a worker has loaded costs nothing with each further task."""

from __future__ import annotations

import subprocess
import sys

import pytest

from apogeemq.runtime.heap import keep_large_blocks

_READ_CHUNKS = """
import resource
from apogeemq.spark.worker_memory import settle_worker
settle_worker()
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

_LOOK_AT_OBJECTS = """
import gc
import apogeemq.spark.reading.partition_reader
from apogeemq.spark.worker_memory import settle_worker
loaded = len(gc.get_objects())
settle_worker()
print(loaded, len(gc.get_objects()))
"""


# Each in a process of its own: what others have allocated would count.
def _printed(program: str) -> list[int]:
    return [int(word) for word in subprocess.check_output([sys.executable, "-c", program], text=True).split()]


@pytest.mark.skipif(not keep_large_blocks(), reason="the C library has no such setting")
def test_large_blocks_are_kept() -> None:
    (faults,) = _printed(_READ_CHUNKS)
    assert faults < _PAGES_OF_A_CHUNK  # without it about twenty times as many


def test_a_collection_does_not_look_at_loaded_modules() -> None:
    loaded, looked_at = _printed(_LOOK_AT_OBJECTS)
    assert loaded > 10_000
    assert looked_at < loaded / 100
