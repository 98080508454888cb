"""Child processes that end with this one, however it ends: also by `kill -9`, when nobody is left to end them."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def ends_with_us() -> Callable[[], None] | None:
    """For `preexec_fn` of `subprocess.Popen`; None where the kernel has no such thing.

    The kernel counts the thread that starts the child, so start it from one that lives as long as the process.
    """
    if not sys.platform.startswith("linux"):
        return None
    parent, set_option = os.getpid(), ctypes.CDLL(None).prctl

    def in_child() -> None:
        set_option(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it has ended before it was asked for
            os._exit(1)

    return in_child
