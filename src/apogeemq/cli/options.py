"""Options that commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

HELP_NAMES = {"help_option_names": ["-h", "--help"]}


class LogLevel(StrEnum):
    """As the logging module names them."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


PrintConfig = Annotated[bool, typer.Option("-p", "--printConfigItem", help="Print all config items, then exit.")]
Bind = Annotated[str | None, typer.Option(metavar="HOST", help="Address to listen on (0.0.0.0).")]
LogDir = Annotated[
    str | None, typer.Option(metavar="DIR", help="Folder for log files (DATA/logs); '' logs to the terminal only.")
]
Level = Annotated[LogLevel, typer.Option(case_sensitive=False, help="Least level that is logged.")]

Address = Annotated[str, typer.Argument(metavar="ADDR", help="host:port of a name server.")]
TlsConfig = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Speak TLS, with the tls.client.* keys of this properties file."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
