"""What the C library does with large blocks that are free.

By itself glibc hands them back to the kernel, and the kernel has to clear every page of the next ones: for a process
that goes from one block of some hundred kilobytes to the next, that may cost more than all that is done with them.
"""

from __future__ import annotations

import ctypes
from typing import Final

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_LARGEST_KEPT: Final = 32 * 1024 * 1024  # glibc takes no more
_MOST_KEPT: Final = 64 * 1024 * 1024


def keep_large_blocks() -> bool:
    """For this process, from now on: up to 64 MiB that are free stay with it. False where there is no such setting."""
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(set_option(_MMAP_THRESHOLD, _LARGEST_KEPT) and set_option(_TRIM_THRESHOLD, _MOST_KEPT))
