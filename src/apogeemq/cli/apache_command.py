"""Commands under Apache's names: its exit statuses and its folder of logs."""

from __future__ import annotations

import sys
from typing import Final

import typer

from apogeemq.errors import ApogeeError

LOG_DIR: Final = "~/logs/rocketmqlogs"
USAGE_STATUS: Final = 1
FAILURE_STATUS: Final = 255  # Java's exit(-1)

_TYPER_USAGE_STATUS = 2


def run_as_apache(app: typer.Typer, name: str) -> None:
    try:
        app(prog_name=name)
    except ApogeeError as error:
        print(f"{name}: {error}", file=sys.stderr)
        sys.exit(FAILURE_STATUS)
    except SystemExit as ending:
        sys.exit(USAGE_STATUS if ending.code == _TYPER_USAGE_STATUS else ending.code)
