"""The demonstration ends by itself or when interrupted, accounts for every order, and leaves nothing behind."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from apogeemq.cli.demo.command import remove_what_was_left
from tests.peers.process import wait_for
from tests.spark.processes import family

pytestmark = pytest.mark.timeout(300)

COMMAND = (sys.executable, "-m", "apogeemq.cli.main", "demo", "--rate=100")


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(folder), "HOME": str(folder), "COLUMNS": "120", "NO_COLOR": "1"}


def numbers(text: str) -> dict[str, int]:
    """Of the account: a row is a text and a number."""
    rows = re.findall(r"│ ([a-zA-Z, ]+?) +│ +([0-9,]+) │", text.partition("Where the orders are")[2])
    return {name: int(number.replace(",", "")) for name, number in rows}


def start(folder: Path, *flags: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *flags], env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def are_gone(pids: list[int]) -> bool:
    return not any(Path("/proc", str(pid)).exists() for pid in pids)


def test_it_ends_by_itself_when_every_order_is_accounted_for(tmp_path: Path) -> None:
    with start(tmp_path, "--seconds=3") as demo:
        output, errors = demo.communicate(timeout=240)
    assert (demo.returncode, errors) == (0, ""), output
    found = numbers(output)
    assert found["produced"] > 200
    assert found["produced"] == found["stored by the broker"] == found["read by Spark"]
    assert found["broken, in the dead letter topic"] == found["produced"] // 100
    for place in ("counted in the revenue topic", "counted in the Parquet files"):
        assert found[place] + found["broken, in the dead letter topic"] == found["produced"]
    assert "every order is accounted for" in output
    assert list(tmp_path.glob("apogeemq-demo-*")) == []


def test_ctrl_c_ends_all_of_it(tmp_path: Path) -> None:
    with start(tmp_path) as demo:
        assert demo.stdout is not None
        said = "".join(iter(lambda: _line_until(demo, "running: "), ""))
        everyone = family(demo.pid)
        demo.send_signal(signal.SIGINT)
        output, errors = demo.communicate(timeout=150)
    assert (demo.returncode, errors) == (0, ""), said + output
    assert "every order is accounted for" in output
    assert are_gone(everyone)
    assert list(tmp_path.glob("apogeemq-demo-*")) == []


def test_ctrl_c_before_spark_is_there_ends_all_of_it_at_once(tmp_path: Path) -> None:
    with start(tmp_path) as demo:
        assert demo.stdout is not None
        assert any("starting Spark" in line for line in demo.stdout)  # read up to there
        everyone = family(demo.pid)
        demo.send_signal(signal.SIGTERM)
        _, errors = demo.communicate(timeout=150)
    assert (demo.returncode, errors) == (130, "")
    assert len(everyone) > 3
    assert are_gone(everyone)
    assert list(tmp_path.glob("apogeemq-demo-*")) == []


def test_a_closed_terminal_ends_all_of_it(tmp_path: Path) -> None:
    ours, its = os.openpty()

    def make_it_the_terminal() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests may be run by something that has it ignored, as nohup does
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    demo = subprocess.Popen(
        COMMAND,
        env=environment(tmp_path),
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
        preexec_fn=make_it_the_terminal,
    )
    with demo:
        os.close(its)
        seen = b""
        while b"starting Spark" not in seen:
            seen += os.read(ours, 4096)
        everyone = family(demo.pid)
        os.close(ours)
        try:
            demo.wait(timeout=150)
        finally:
            demo.kill()
    assert len(everyone) > 3
    assert are_gone(everyone)
    assert list(tmp_path.glob("apogeemq-demo-*")) == []


def test_a_demonstration_that_is_killed_takes_all_with_it(tmp_path: Path) -> None:
    with start(tmp_path) as demo:
        "".join(iter(lambda: _line_until(demo, "running: "), ""))
        everyone = family(demo.pid)
        demo.kill()
        demo.communicate(timeout=60)
    assert len(everyone) > 5
    wait_for(lambda: are_gone(everyone), "all processes have ended")
    (left,) = tmp_path.glob("apogeemq-demo-*")
    remove_what_was_left(tmp_path)
    assert not left.exists()


def _line_until(demo: subprocess.Popen[str], word: str) -> str:
    """A line; nothing once one with the word has come."""
    assert demo.stdout is not None
    line = demo.stdout.readline()
    assert line, "the demonstration has ended"
    return "" if word in line else line
