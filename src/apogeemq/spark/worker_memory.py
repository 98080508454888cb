"""Memory of a worker process: what it would otherwise do over again with every task, or every chunk of records.

By itself glibc hands the blocks of a chunk back to the kernel when they are free, and the kernel has to clear every
page of the next ones: that may cost more than all that is done with them.

Spark has a worker collect garbage after each task. Python looks at all objects then, nearly all of them those of
loaded modules, that no one will ever let go of: tens of milliseconds, as much as reading ten thousand messages.
"""

from __future__ import annotations

import ctypes
import gc
from functools import cache
from typing import Final

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_LARGEST_KEPT: Final = 32 * 1024 * 1024  # glibc takes no more
_MOST_KEPT: Final = 64 * 1024 * 1024


@cache
def settle_worker() -> None:
    """For this process, from now on. A task calls it when its modules are loaded; all but the first do so in vain."""
    keep_large_blocks()
    gc.freeze()


def keep_large_blocks() -> bool:
    """False where the C library has no such setting."""
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(set_option(_MMAP_THRESHOLD, _LARGEST_KEPT) and set_option(_TRIM_THRESHOLD, _MOST_KEPT))
