"""Lines to the terminal and to a file."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from apogeemq.errors import ConfigError
from apogeemq.runtime import logs


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    root.handlers.clear()
    yield
    for handler in root.handlers:
        handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)


def test_one_line_with_time_level_and_logger_in_both_places(tmp_path: Path) -> None:
    terminal, log_file = io.StringIO(), tmp_path / "deep" / "namesrv.log"
    logs.set_up_logging("info", log_file, terminal=terminal)
    logging.getLogger("apogeemq.sample").warning("hello %d", 5)
    logging.getLogger("apogeemq.sample").debug("too fine")
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} WARNING apogeemq\.sample - hello 5\n", terminal.getvalue()
    )
    assert log_file.read_text() == terminal.getvalue()


def test_a_message_cannot_start_a_line_of_its_own() -> None:
    terminal = io.StringIO()
    logs.set_up_logging("INFO", None, terminal=terminal)
    logging.getLogger("x").info("topic %s", "a\r\n2026-01-01 00:00:00.000 ERROR  forged")
    assert terminal.getvalue().count("\n") == 1
    assert "a\\r\\n2026" in terminal.getvalue()


def test_a_traceback_keeps_its_lines() -> None:
    terminal = io.StringIO()
    logs.set_up_logging("INFO", None, terminal=terminal)
    try:
        raise ValueError("reason")
    except ValueError:
        logging.getLogger("x").exception("failed")
    assert terminal.getvalue().splitlines()[-1] == "ValueError: reason"


def test_file_is_rotated_by_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "FILE_SIZE", 1_000)
    monkeypatch.setattr(logs, "FILE_COUNT", 2)
    logs.set_up_logging("INFO", tmp_path / "namesrv.log", terminal=io.StringIO())
    for _ in range(100):
        logging.getLogger("x").info("y" * 100)
    assert {path.name for path in tmp_path.iterdir()} == {"namesrv.log", "namesrv.log.1", "namesrv.log.2"}
    assert all(path.stat().st_size <= 1_000 for path in tmp_path.iterdir())


def test_setting_up_again_replaces(tmp_path: Path) -> None:
    first, second = io.StringIO(), io.StringIO()
    logs.set_up_logging("INFO", tmp_path / "a.log", terminal=first)
    logs.set_up_logging("INFO", None, terminal=second)
    logging.getLogger("x").info("once")
    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1


def test_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"cannot log to .*file/sub/namesrv\.log: (Not a directory|File exists)"):
        logs.set_up_logging("INFO", tmp_path / "file" / "sub" / "namesrv.log")


def test_unknown_level_is_one_sentence() -> None:
    with pytest.raises(ConfigError, match="log level chatty: expected one of DEBUG, INFO"):
        logs.set_up_logging("chatty", None)
