"""A child does not outlive a parent that is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.peers.process import wait_for

PARENT = """
import subprocess, sys, time
from apogeemq.embedded.lifeline import ends_with_us
child = subprocess.Popen(["sleep", "600"], preexec_fn=ends_with_us(), start_new_session=True)
print(child.pid, flush=True)
time.sleep(600)
"""


def test_a_child_ends_with_a_parent_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_running(child)
        parent.kill()
    wait_for(lambda: not is_running(child), "the child has ended")


def is_running(pid: int) -> bool:
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
