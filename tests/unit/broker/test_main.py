"""The broker's process: what it says when it cannot start."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("arguments", [(), ("",), ("{}",), ("not settings",)])
def test_settings_are_needed(arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "apogeemq.broker", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("apogeemq.broker: the settings given to the server process cannot be read")
