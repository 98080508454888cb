"""A command line or a file that is wrong: one sentence that names what is wrong, and a status that is not zero."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_BOX = "╭╮╰╯─│ "


def refusal(*args: str) -> list[str]:
    """What `apogee namesrv` says on stderr, without the reminder of its usage."""
    ended = subprocess.run(
        [sys.executable, "-m", "apogeemq.cli.main", "namesrv", "--bind", "127.0.0.1", *args],
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode != 0
    assert "boot success" not in ended.stdout
    lines = [line.strip(_BOX) for line in ended.stderr.splitlines()]
    return [line for line in lines if line not in ("", "Error") and not line.startswith(("Usage: ", "Try "))]


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("--prot", "1"), "No such option: --prot (Possible options: --port)"),
        (("--port", "many"), "Invalid value for '--port': 'many' is not a valid int."),
        (("--port", "70000"), "apogee: listenPort=70000: expected a whole number from 0 to 65535"),
        (("-c", "/no/such/file"), "apogee: cannot read the config file /no/such/file: No such file or directory"),
        (("-c", "/"), "apogee: cannot read the config file /: Is a directory"),
        (("--data", "/proc/no"), "apogee namesrv: cannot log to /proc/no/logs/namesrv.log: No such file or directory"),
    ],
)
def test_a_wrong_command_line_is_one_sentence(args: tuple[str, ...], sentence: str) -> None:
    assert refusal(*args) == [sentence]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("listenPort=many", "apogee: listenPort=many: expected a whole number from 0 to 65535"),
        ("warmStart=perhaps", "apogee: warmStart=perhaps: expected true or false"),
        ("journalFileCount=0", "apogee: journalFileCount=0: expected a whole number from 1 to 2147483647"),
        (
            "bindAddress=\\u12",
            "apogee: the config file {file} is not a properties file: Invalid \\u escape sequence: \\u12",
        ),
    ],
)
def test_a_wrong_value_in_the_file_is_one_sentence(tmp_path: Path, line: str, sentence: str) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text(f"maxConnections=1000\n{line}\n")
    assert refusal("-c", str(file)) == [sentence.format(file=file)]


def test_a_data_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    (said,) = refusal("--port", "0", "--data", str(tmp_path / "file"), "--log-dir", "", "--log-level", "error")
    assert said.startswith("apogee namesrv: cannot ")
    assert str(tmp_path / "file") in said


def test_a_damaged_kv_file_is_one_sentence_and_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "kvConfig.json").write_text('{"configTable":{"n":')
    (said,) = refusal("--port", "0", "--data", str(tmp_path), "--log-dir", "", "--log-level", "error")
    assert said.startswith(f"apogee namesrv: {tmp_path}/kvConfig.json is damaged: ")
    assert (tmp_path / "kvConfig.json").read_text() == '{"configTable":{"n":'
    assert not (tmp_path / "routes.json").exists()
