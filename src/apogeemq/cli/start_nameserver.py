"""From a command line to a running name server: read the file, resolve, and become the server process.

The server runs in the same process (same pid, same terminal) but in a fresh interpreter: the libraries that parse
command lines and properties files would otherwise stay in the server's memory for as long as it runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from apogeemq.errors import ConfigError
from apogeemq.nameserver.config import ServerSettings, resolve_settings, settings_to_argument
from apogeemq.runtime.config import parse_properties

SERVER_MODULE = "apogeemq.nameserver"
_DEFAULT_TLS_FILE = "/etc/rocketmq/tls.properties"
_NOT_FROM_TLS_FILE = frozenset(("tls.server.mode", "tls.config.file"))  # as in Apache's servers


def read_settings(
    config_file: Path | None, flags: Mapping[str, str | int | Path | None], *, log_dir: str | None, log_level: str
) -> ServerSettings:
    """The effective settings; warnings go to stderr. `flags` are keys of the configuration, None if not given."""
    properties = _environment_properties()
    if config_file is not None:
        properties |= read_properties_file(config_file)
        print(f"load config properties file OK, {config_file}", flush=True)
    given = {key: str(value) for key, value in flags.items() if value is not None}
    settings, warnings = resolve_settings(properties, given, home=Path.home(), config_file=config_file)
    for warning in warnings:
        print(f"warning: {f'{config_file}: ' if config_file else ''}{warning}", file=sys.stderr)
    settings.tls = _with_tls_file(settings.tls)
    settings.log_dir = str(settings.data_dir / "logs") if log_dir is None else _absolute_or_none(log_dir)
    settings.log_level = log_level.upper()
    return settings


def read_properties_file(path: Path) -> dict[str, str]:
    """ConfigError, one sentence, when it cannot be read."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read the config file {path}: {error.strerror or error}") from None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = content.decode("latin-1")  # what Java takes such files to be in
    try:
        return parse_properties(text)
    except ConfigError as error:
        raise ConfigError(f"the config file {path} is {error}") from None


def shown_settings(settings: ServerSettings) -> str:
    """All items, sorted; passwords are not for the screen."""
    tls = {key: "******" if key.endswith("Password") else value for key, value in settings.tls.items()}
    return settings.shown() + "".join(f"{key}={value}\n" for key, value in sorted(tls.items()))


def become_server(settings: ServerSettings) -> NoReturn:
    """Replace this process by the server; does not return."""
    argument, environment = settings_to_argument(settings)
    sys.stdout.flush()
    sys.stderr.flush()
    # -P: the folder a person happens to be in is no place to import modules from.
    command = [sys.executable, "-P", "-m", SERVER_MODULE, argument]
    os.execve(sys.executable, command, {**os.environ, **environment})


def _environment_properties() -> dict[str, str]:
    home = os.environ.get("ROCKETMQ_HOME")
    return {"rocketmqHome": home} if home else {}


def _with_tls_file(tls: dict[str, str]) -> dict[str, str]:
    """The keys of `tls.config.file` go over those given elsewhere; the default file need not exist."""
    path = Path(tls.get("tls.config.file", _DEFAULT_TLS_FILE)).expanduser()
    if not path.exists() and "tls.config.file" not in tls:
        return tls
    from_file = read_properties_file(path)
    return tls | {key: value for key, value in from_file.items() if key not in _NOT_FROM_TLS_FILE}


def _absolute_or_none(folder: str) -> str | None:
    return str(Path(folder).expanduser().absolute()) if folder else None
