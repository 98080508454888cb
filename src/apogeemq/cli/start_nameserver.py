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
from apogeemq.nameserver.config import ServerSettings, resolve_settings
from apogeemq.runtime.config import parse_properties, unknown_key_warning
from apogeemq.runtime.settings import settings_to_argument

SERVER_MODULE = "apogeemq.nameserver"
_TLS_FILE_KEY = "tls.config.file"
_DEFAULT_TLS_FILE = "/etc/rocketmq/tls.properties"


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
        _warn(f"{config_file}: {warning}")  # a flag is never an unknown key
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
    """The `tls.*` keys with those of `tls.config.file` put in; the default file need not exist."""
    path = Path(tls.get(_TLS_FILE_KEY, _DEFAULT_TLS_FILE)).expanduser()
    has_file = _TLS_FILE_KEY in tls or path.exists()
    if not tls and not has_file:
        return tls
    from apogeemq.transport.tls import (  # brings asyncio and ssl: not for every start
        TLS_KEYS,
        TlsSettings,
        merged_properties,
    )

    from_file = read_properties_file(path) if has_file else {}
    for key in from_file.keys() - TLS_KEYS:
        _warn(f"{path}: {unknown_key_warning(key, TLS_KEYS)}")
    merged = merged_properties(tls, from_file)
    TlsSettings.from_properties(merged)  # a wrong value is said here, before the server starts
    return merged


def _warn(sentence: str) -> None:
    print(f"warning: {sentence}", file=sys.stderr)


def _absolute_or_none(folder: str) -> str | None:
    return str(Path(folder).expanduser().absolute()) if folder else None
