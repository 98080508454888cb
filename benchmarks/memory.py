"""Free memory that is there when it is touched.

A virtual machine gives memory that is free for seconds back to its host. Who touches such a page again, a broker that
fills its log for example, waits some ten microseconds until the host has found another one, and the kernel books that
as CPU time of its own: far more than all else a message costs. A machine with memory of its own has nothing of that.
"""

from __future__ import annotations

import mmap

_MADV_POPULATE_WRITE = 23  # Linux 5.14; the mmap module has no name for it yet
ROUND_BYTES = 2 << 30
"""More than a round fills."""


def have_ready(size: int = ROUND_BYTES) -> None:
    """Take so much of it and leave it again: for the next two seconds or so it is the first that is used."""
    with mmap.mmap(-1, size) as taken:
        taken.madvise(_MADV_POPULATE_WRITE)
