"""The command `apogee` itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import apogeemq
from tests.unit.cli.commands import run


def test_module_is_runnable_and_tells_its_version() -> None:
    command = [sys.executable, "-m", "apogeemq.cli.main", "--version"]
    assert subprocess.check_output(command, text=True) == f"apogee {apogeemq.__version__}\n"


def test_help_names_the_commands_and_completion(tmp_path: Path) -> None:
    ended = run("main", "--help", home=tmp_path)
    assert ended.returncode == 0
    for word in ("namesrv", "--version", "--install-completion", "--show-completion"):
        assert word in ended.stdout
    assert "namesrv" in run("main", "-h", home=tmp_path).stdout


def test_completion_script_can_be_had() -> None:
    # It is made for the shell that asks; the second command keeps bash from becoming the first.
    command = ["bash", "-c", '"$0" -m apogeemq.cli.main --show-completion; exit $?', sys.executable]
    assert "_COMPLETE=" in subprocess.check_output(command, text=True)


def test_unknown_command_is_status_2(tmp_path: Path) -> None:
    ended = run("main", "teapot", home=tmp_path)
    assert ended.returncode == 2
    assert "teapot" in ended.stderr
