"""Our commands, called with the arguments and the environment a person would give them."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch


class Ended(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def run(module: str, *args: str, home: Path, env: Mapping[str, str] | None = None) -> Ended:
    """Run the command of `apogeemq.cli.<module>` to its end, with a home folder of its own.

    In this process: an interpreter per case would make these tests a minute long.
    """
    command = importlib.import_module(f"apogeemq.cli.{module}")
    environment = {key: value for key, value in os.environ.items() if key not in ("ROCKETMQ_HOME", "NAMESRV_ADDR")}
    environment |= {"HOME": str(home), "COLUMNS": "120", "NO_COLOR": "1", **(env or {})}
    stdout, stderr, status = io.StringIO(), io.StringIO(), 0
    with (
        patch.object(sys, "argv", [module, *args]),
        patch.dict(os.environ, environment, clear=True),
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
    ):
        try:
            command.main()
        except SystemExit as ending:
            status = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    return Ended(status, stdout.getvalue(), stderr.getvalue())
