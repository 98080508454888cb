"""A forked child and the connections of its parent.

The child has a copy of every socket. If it kept them, the peer would not see the parent close its own: a consumer that
left would go on being counted. So the child puts an empty file in the place of each; the numbers stay taken, because
objects that nobody uses any more still hold them and may close them one day.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from typing import Protocol
from weakref import WeakSet


class SocketHolder(Protocol):
    def descriptors(self) -> Iterable[int]: ...


_holders: WeakSet[SocketHolder] = WeakSet()


def release_in_children(holder: SocketHolder) -> None:
    """A process that is forked from now on does not keep the holder's sockets open."""
    _holders.add(holder)


def _release() -> None:
    holders = tuple(_holders)
    _holders.clear()
    if not holders:
        return
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for holder in holders:
        with contextlib.suppress(Exception):  # of one half taken down when the fork came
            for descriptor in holder.descriptors():
                os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)


os.register_at_fork(after_in_child=_release)
