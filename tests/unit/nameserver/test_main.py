"""The server process: what it says when it cannot start."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from apogeemq.runtime.settings import settings_to_argument
from tests.unit.nameserver.live import Home


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "apogeemq.nameserver", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("arguments", [(), ("",), ("{}",), ("not settings",)])
def test_settings_are_needed(arguments: tuple[str, ...]) -> None:
    ended = run(*arguments)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("apogeemq.nameserver: the settings given to the server process cannot be read")


def test_failed_start_is_one_sentence_of_the_command_that_was_called(home: Home) -> None:
    home.folder.mkdir()
    (home.folder / "kvConfig.json").write_text("damaged")
    settings = msgspec.structs.replace(home.settings(), program="mqnamesrv")
    ended = run(settings_to_argument(settings)[0])
    assert (ended.returncode, ended.stdout) == (1, "")
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("mqnamesrv: ")
    assert "kvConfig.json is damaged" in last
    assert "Traceback" not in ended.stderr
