"""CPU time is counted for a whole tree of processes, those that have ended included."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from benchmarks.spark import process_tree
from benchmarks.spark.process_tree import Watch, parse_stat
from tests.peers.process import wait_for

# A process with a child that works for a while and ends; nobody waits for it, as with Spark's workers.
_PARENT = """
import signal, subprocess, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
busy = "import time\\nwhile time.process_time() < 0.5: pass\\nprint('worked', flush=True)\\ninput()"
subprocess.Popen([sys.executable, "-c", busy])
sys.stdin.read()
"""


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", _PARENT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        yield child
        child.kill()


def test_a_name_may_hold_anything() -> None:
    fields = ["S", *(str(number) for number in range(4, 53))]
    usage = parse_stat(f"12 (a) b (c)) {' '.join(fields)}\n")
    assert (usage.pid, usage.name, usage.started) == (12, "a) b (c)", 22)
    assert usage.seconds == pytest.approx((14 + 15) / process_tree._TICK)


def test_what_a_child_has_used_is_kept_when_it_has_ended(parent: subprocess.Popen[str]) -> None:
    assert parent.stdout is not None and parent.stdin is not None
    with Watch(parent.pid) as watch:
        assert parent.stdout.readline() == "worked\n"
        while_there = watch.cpu()
        assert while_there.python >= 0.45 and while_there.java == 0
        (child,) = watch.living()
        process_tree.kill(child)
        wait_for(lambda: not watch.living(), "the child is gone")
        assert watch.cpu().all >= while_there.all


def test_another_process_of_the_same_number_is_left_alone(parent: subprocess.Popen[str]) -> None:
    (child,) = wait_for(lambda: list(process_tree._usages(parent.pid)), "the child is there")
    process_tree.kill(child._replace(started=child.started - 1))
    assert parent.stdout is not None
    assert parent.stdout.readline() == "worked\n"
    assert child.pid in process_tree.descendants(parent.pid)
