"""Logs: one line per event, to the terminal and to a file rotated by size."""

from __future__ import annotations

import contextlib
import logging
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final, TextIO

from apogeemq.errors import ConfigError

LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")
FILE_SIZE: Final = 64 * 1024 * 1024
FILE_COUNT: Final = 10

_FORMAT = "%(asctime)s.%(msecs)03d %(levelname)-7s %(name)s - %(message)s"
_TIME_FORMAT = "%Y-%m-%d %H:%M:%S"


class _OneLine(logging.Formatter):
    """What a peer sent may be in a message; it must not be able to start a line of its own."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return super().formatMessage(record).replace("\r", "\\r").replace("\n", "\\n")


def set_up_logging(level: str, log_file: Path | None, *, terminal: TextIO | None = None) -> None:
    """Send every logger's lines to the terminal (stderr) and, when given, to a rotated file.

    Called once, by the composition root, before anything is logged. ConfigError when the file cannot be had.
    """
    if level.upper() not in LEVELS:
        raise ConfigError(f"log level {level}: expected one of {', '.join(LEVELS)}")
    handlers: list[logging.Handler] = [logging.StreamHandler(terminal or sys.stderr)]
    if log_file is not None:
        handlers.append(_rotated(log_file))
    formatter = _OneLine(_FORMAT, _TIME_FORMAT)
    for handler in handlers:
        handler.setFormatter(formatter)
    root = logging.getLogger()
    for old in tuple(root.handlers):
        root.removeHandler(old)
        old.close()
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(level.upper())


class _RotatedFile(RotatingFileHandler):
    """A disk that takes nothing is said once, on stderr; lines are lost in the file until there is room again."""

    _has_failed = False
    _has_been_said = False

    def emit(self, record: logging.LogRecord) -> None:
        self._has_failed = False
        super().emit(record)
        self._has_been_said = self._has_failed

    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        if self.stream is not None and self.stream.closed:
            self.stream = None  # closing it for rotation failed; the next line opens it anew
        elif not isinstance(error, OSError):
            super().handleError(record)
            return
        self._has_failed = True
        if not self._has_been_said:
            reason = error.strerror if isinstance(error, OSError) else error
            with contextlib.suppress(OSError):  # stderr may be a file on the same disk
                print(f"cannot log to {self.baseFilename}: {reason}", file=sys.stderr, flush=True)


def _rotated(log_file: Path) -> RotatingFileHandler:
    try:
        log_file.parent.mkdir(parents=True, exist_ok=True)
        return _RotatedFile(log_file, maxBytes=FILE_SIZE, backupCount=FILE_COUNT, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot log to {log_file}: {error.strerror or error}") from error
