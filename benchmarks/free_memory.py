"""Free memory that the host of this virtual machine has taken back.

Who touches a page of it waits until the host gives it again: that takes a hundred times longer than a page that is
here, and the kernel books it on whoever waits, above all on brokers, which need new pages for all they write. A host
takes back what nobody has used for a minute or two. Whether a round meets such pages is luck, so they are fetched
before it.

They are fetched as large pages, because files get memory in large pieces where the kernel has any: of what is fetched
page by page they get little. Writing a file of 400 MB again and again, one machine needed 0.07 s for each while memory
lasted that was here, and 1 s from then on; fetching page by page did not change that, fetching large pages did.
"""

from __future__ import annotations

import mmap
from contextlib import ExitStack, suppress

_MIB = 1 << 20
_WANTED = 1024 * _MIB  # more than is written in one round
_NOT_TOUCHED = 512 * _MIB  # for what others need meanwhile
_PIECE = 64 * _MIB  # at a time: Ctrl-C waits for no more


def fetch() -> None:
    """Touches as much as is wanted, and free. Afterwards it is free again, and here."""
    size = min(_WANTED, _free_bytes() - _NOT_TOUCHED)
    with ExitStack() as pieces:
        for _ in range(size // _PIECE):
            piece = pieces.enter_context(mmap.mmap(-1, _PIECE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
            with suppress(OSError):  # a kernel without large pages fetches little ones
                piece.madvise(mmap.MADV_HUGEPAGE)
            piece[:: mmap.PAGESIZE] = bytes(_PIECE // mmap.PAGESIZE)


def _free_bytes() -> int:
    """Used by nobody, not even for files."""
    with open("/proc/meminfo") as figures:
        for line in figures:
            if line.startswith("MemFree:"):
                return int(line.split()[1]) * 1024
    return 0
