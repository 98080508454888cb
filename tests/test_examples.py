"""Every program of examples/ runs, with servers of ours, and prints what it should."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.our_servers import complaints, our_servers

EXAMPLES = Path(__file__).parent.parent / "examples"

# What each prints, as a pattern of the whole.
THAT_END = {
    "send": r"SEND_OK: broker-a, queue \d\n",
    "ordered": "".join(f"{order} placed paid packed shipped\n" for order in "ABC"),
    "batch": r"one batch: SEND_OK\n1000 messages, each with its own result: {'SEND_OK'}\n",
    "delay": "now\nin a second\n",
    "broadcast": "(one|two) forgets price 42\n(one|two) forgets price 42\n",
    "dead_letters": "given up: not a form for the topic %DLQ%readers\n",
    "lite_pull": "10 lines, the last one: line 9\n",
    "replay": "10 events\n",
    "topics": r"2 queues\noffsets 0 to 1\nby id: Dear all\nby key: \['Dear all'\]\n",
    "failures": "a setting is wrong: .*\nno broker would take it: .*\nused wrongly: .*\n"
    "nobody there; worth trying again: True\n",
    "blocking_send": "SEND_OK\n20 from four threads\n{'SEND_OK'}\n",
    "blocking_lite_pull": "10 jobs done\n",
}
# A line each prints for the message of send.py, before Ctrl-C.
THAT_WAIT = {
    "consume": r"\['42'\] a book\n",
    "handler": "packed a book\n",
    "blocking_consume": r"\['42'\] a book\n",
    "blocking_handler": r"packed a book in apogeemq-handler-\d+\n",
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a name server whose broker has the message of send.py."""
    with our_servers(tmp_path_factory.mktemp("servers")) as found:
        ended = start("send", found)
        assert complaints(ended.communicate()[1]) == ""
        yield found


def start(name: str, address: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_every_example_is_here_and_in_the_list() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == {*THAT_END, *THAT_WAIT}
    assert set(re.findall(r"`(\w+)\.py`", (EXAMPLES / "README.md").read_text())) == names


@pytest.mark.parametrize("name", THAT_END)
def test_an_example_that_ends(name: str, address: str) -> None:
    running = start(name, address)
    output, errors = running.communicate()
    assert (running.returncode, complaints(errors)) == (0, "")
    assert re.fullmatch(THAT_END[name], output), output


@pytest.mark.parametrize("name", THAT_WAIT)
def test_an_example_that_runs_until_ctrl_c(name: str, address: str) -> None:
    running = start(name, address)
    assert running.stdout is not None
    for line in running.stdout:
        if re.fullmatch(THAT_WAIT[name], line):
            break
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate()
    assert (running.returncode, complaints(errors)) == (0, "")
