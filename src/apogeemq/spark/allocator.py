"""Memory of large blocks, kept by a worker between one chunk of records and the next.

By itself glibc hands the blocks of a chunk back to the kernel when they are free, and the kernel has to clear every
page of the next ones: that may cost more than all that is done with them.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Final

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_LARGEST_KEPT: Final = 32 * 1024 * 1024  # glibc takes no more
_MOST_KEPT: Final = 64 * 1024 * 1024


@cache
def keep_large_blocks() -> bool:
    """For this process, from now on. False where the C library has no such setting."""
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(set_option(_MMAP_THRESHOLD, _LARGEST_KEPT) and set_option(_TRIM_THRESHOLD, _MOST_KEPT))
