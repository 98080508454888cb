"""Free memory that the host of this virtual machine has taken back.

Who touches a page of it waits until the host gives it again: that takes a hundred times longer than a page that is
here, and the kernel books it on whoever waits, above all on brokers, which need new pages for all they write. A host
takes back what nobody has used for a minute or two. Whether a round meets such pages is luck, so they are fetched
before it.
"""

from __future__ import annotations

import mmap
from contextlib import ExitStack

_MIB = 1 << 20
_WANTED = 1024 * _MIB  # more than is written in one round
_NOT_TOUCHED = 512 * _MIB  # for what others need meanwhile
_PIECE = 64 * _MIB  # at a time: Ctrl-C waits for no more


def fetch() -> None:
    """Touches as much as is wanted, and free. Afterwards it is free again, and here."""
    size = min(_WANTED, _free_bytes() - _NOT_TOUCHED)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    with ExitStack() as pieces:
        for _ in range(size // _PIECE):
            pieces.enter_context(mmap.mmap(-1, _PIECE, flags=flags))


def _free_bytes() -> int:
    """Used by nobody, not even for files."""
    with open("/proc/meminfo") as figures:
        for line in figures:
            if line.startswith("MemFree:"):
                return int(line.split()[1]) * 1024
    return 0
