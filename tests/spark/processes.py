"""Who is whose child, and who talks to whom, as the kernel knows it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


def children_of_all() -> dict[int, list[int]]:
    """Process to its children."""
    found: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                # The name in brackets may hold anything; what follows the last bracket does not.
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                found.setdefault(parent, []).append(int(entry.name))
    return found


def family(pid: int) -> list[int]:
    """A process and all that come from it."""
    children, found = children_of_all(), [pid]
    for each in found:
        found.extend(children.get(each, ()))
    return found


def command_line(pid: int) -> list[str]:
    """Nothing when it has ended."""
    try:
        return Path("/proc", str(pid), "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@dataclass(frozen=True)
class Connection:
    """One side of a TCP connection that a process of this machine holds."""

    pid: int
    local_port: int
    remote_port: int
    received_bytes: int


def connections_to(ports: Iterable[int]) -> list[Connection]:
    """All that lead to one of these ports, with who holds them and what has come through them so far."""
    wanted = set(ports)
    shown = subprocess.run(["ss", "-tinpHO", "state", "established"], capture_output=True, text=True, check=True).stdout
    return [found for line in shown.splitlines() if (found := _connection(line)) and found.remote_port in wanted]


def _connection(line: str) -> Connection | None:
    ends = re.findall(r"\S+:(\d+)(?=\s)", line)
    pid = re.search(r"\bpid=(\d+)", line)
    if len(ends) < 2 or pid is None:
        return None
    received = re.search(r"\bbytes_received:(\d+)", line)
    return Connection(int(pid[1]), int(ends[0]), int(ends[1]), int(received[1]) if received else 0)
