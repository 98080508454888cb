"""A network namespace of the test's own.

Apache's 4.9 servers listen on all addresses whatever they are told, and so does the replication port of every
version: inside a namespace with nothing but its own loopback nobody else can reach them, and every port is free.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

_PREFIX = "apogee"
_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


class NetNamespaceUnavailable(Exception):
    """No network namespace can be made here; the message is one sentence that says why."""


class NetNamespace:
    """Exists between entry and exit; processes join it through `exec_prefix`."""

    _numbers = itertools.count()

    def __init__(self) -> None:
        self.name = f"{_PREFIX}-{os.getpid()}-{next(self._numbers)}"
        # Below the kernel's range for outgoing connections; ten apart leaves room for a broker's P-2 and P+1.
        self._ports = itertools.count(20_002, 10)

    def __enter__(self) -> Self:
        if shutil.which("ip") is None:
            raise NetNamespaceUnavailable(
                "network namespaces need the command `ip` (package iproute2), which is missing"
            )
        if os.geteuid() != 0:
            raise NetNamespaceUnavailable("making a network namespace needs root, and the tests do not run as root")
        _remove_leftovers()
        added = _ip("netns", "add", self.name)
        if added.returncode:
            raise NetNamespaceUnavailable(f"no network namespace can be made here: {added.stderr.strip()}")
        up = _ip("-n", self.name, "link", "set", "lo", "up")
        assert up.returncode == 0, up.stderr
        return self

    def __exit__(self, *_: object) -> None:
        _ip("netns", "delete", self.name)

    @property
    def exec_prefix(self) -> Sequence[str]:
        """Put before a command. `ip` replaces itself with the command, so the process id is the command's."""
        return ("ip", "netns", "exec", self.name)

    @contextlib.contextmanager
    def joined(self) -> Iterator[None]:
        """Sockets that this thread, and threads it starts, make meanwhile are the namespace's."""
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            own = os.open(f"/var/run/netns/{self.name}", os.O_RDONLY)
            try:
                _enter(own)
            finally:
                os.close(own)
            try:
                yield
            finally:
                _enter(before)
        finally:
            os.close(before)

    def free_port(self) -> int:
        """A port P of the namespace's 127.0.0.1 with P-2 and P+1 free as well."""
        return next(self._ports)


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _remove_leftovers() -> None:
    """Namespaces of test runs that were killed: their processes died with them, the names stay."""
    for line in _ip("netns", "list").stdout.splitlines():
        owned = re.match(rf"{_PREFIX}-(\d+)-\d+", line)
        if owned and not Path("/proc", owned[1]).exists():
            _ip("netns", "delete", owned[0])


def _ip(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(("ip", *args), capture_output=True, text=True, check=False)
