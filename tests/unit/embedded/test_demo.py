"""The demonstration runs to its end, and leaves nothing behind when it is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "apogeemq.embedded.demo"]


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(folder), "HOME": str(folder), "COLUMNS": "120", "NO_COLOR": "1"}


def test_it_shows_messages_routes_watch_and_journal_and_cleans_up(tmp_path: Path) -> None:
    ended = subprocess.run(COMMAND, env=environment(tmp_path), capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "The Name Server boot success." in ended.stdout
    assert "The broker[broker-b, " in ended.stdout
    assert "1000 messages pulled, each of them once" in ended.stdout
    assert "ms later the client knows: orders is served by broker-a." in ended.stdout
    assert '"kind":"broker_left"' in ended.stdout
    assert "What to do next:" in ended.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_can_be_interrupted(tmp_path: Path, how: signal.Signals) -> None:
    with subprocess.Popen(COMMAND, env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as demo:
        assert demo.stdout is not None
        assert any(b"boot success" in line for line in demo.stdout)  # read up to there
        demo.send_signal(how)
        _, errors = demo.communicate(timeout=30)  # until nobody has our pipe: the servers are gone as well
    assert (demo.returncode, errors) == (130, b"")
    assert list(tmp_path.iterdir()) == []
