"""From a command line to a running name server."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from apogeemq.cli import start_server
from apogeemq.cli.start_server import Flags
from apogeemq.nameserver.config import ServerSettings, resolve_settings

_VARIABLES = {"ROCKETMQ_HOME": "rocketmqHome"}


def read_settings(config_file: Path | None, flags: Flags, *, log_dir: str | None, log_level: str) -> ServerSettings:
    """The effective settings; warnings go to stderr. A `log_dir` that is None is `logs` in the data folder."""
    properties = start_server.configured_properties(config_file, _VARIABLES)
    settings, warnings = resolve_settings(
        properties, start_server.given_flags(flags), home=Path.home(), config_file=config_file
    )
    log_dir = str(settings.data_dir / "logs") if log_dir is None else log_dir
    start_server.complete_settings(settings, warnings, config_file, log_dir=log_dir, log_level=log_level)
    return settings


def shown_settings(settings: ServerSettings) -> str:
    """All items, sorted."""
    return start_server.with_tls(settings, settings.shown())


def become_server(settings: ServerSettings) -> NoReturn:
    """Replace this process by the server; does not return."""
    start_server.become_server(settings, "apogeemq.nameserver")
