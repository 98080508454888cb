"""Whether idle cores of this virtual machine halt at once, or look for work a little longer first.

A halted core of a virtual machine is woken by its host, which takes longer than any answer measured here, and which the
kernel books on whoever wakes or is woken. With one request at a time every request pays for it, on both sides.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

POLL_US = 200
_SETTING = Path("/sys/module/haltpoll/parameters/guest_halt_poll_ns")


@contextlib.contextmanager
def awake() -> Iterator[bool]:
    """Idle cores look for work before they halt, as long as the `with` lasts; False where that cannot be set."""
    with _polling(1_000 * POLL_US) as is_set:
        yield is_set


@contextlib.contextmanager
def halting() -> Iterator[bool]:
    """Idle cores halt at once."""
    with _polling(0) as is_set:
        yield is_set


@contextlib.contextmanager
def _polling(nanoseconds: int) -> Iterator[bool]:
    try:
        before = _SETTING.read_text()
        _SETTING.write_text(f"{nanoseconds}\n")
    except OSError:  # another kind of machine, or not root
        yield False
        return
    try:
        yield True
    finally:
        _SETTING.write_text(before)
