"""From a command line to a running server: read the file, and become the server process.

The server runs in the same process (same pid, same terminal) but in a fresh interpreter: the libraries that parse
command lines and properties files would otherwise stay in the server's memory for as long as it runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NoReturn

from apogeemq.errors import ConfigError
from apogeemq.runtime.config import parse_properties, unknown_key_warning
from apogeemq.runtime.settings import ProcessSettings, settings_to_argument

_TLS_FILE_KEY = "tls.config.file"
_DEFAULT_TLS_FILE = "/etc/rocketmq/tls.properties"

# Keys of the configuration that flags set; None if not given.
Flags = Mapping[str, str | int | Path | None]


def given_flags(flags: Flags) -> dict[str, str]:
    return {key: str(value) for key, value in flags.items() if value is not None}


def configured_properties(config_file: Path | None, variables: Mapping[str, str]) -> dict[str, str]:
    """What the file says, over what the environment says. `variables`: environment variable -> key."""
    properties = {key: os.environ[name] for name, key in variables.items() if os.environ.get(name)}
    if config_file is not None:
        properties |= read_properties_file(config_file)
        print(f"load config properties file OK, {config_file}", flush=True)
    return properties


def complete_settings(
    settings: ProcessSettings, warnings: Iterable[str], config_file: Path | None, *, log_dir: str, log_level: str
) -> None:
    """Put in what is the same for every server; warnings go to stderr. An empty `log_dir`: the terminal only."""
    for warning in warnings:
        _warn(f"{config_file}: {warning}" if config_file is not None else warning)
    settings.tls = _with_tls_file(settings.tls)
    settings.log_dir = str(Path(log_dir).expanduser().absolute()) if log_dir else None
    settings.log_level = log_level.upper()


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


def with_tls(settings: ProcessSettings, shown: str) -> str:
    """What is printed of the configuration, with the TLS items; passwords are not for the screen."""
    tls = {key: "******" if key.endswith("Password") else value for key, value in settings.tls.items()}
    return shown + "".join(f"{key}={value}\n" for key, value in sorted(tls.items()))


def become_server(settings: ProcessSettings, module: str) -> NoReturn:
    """Replace this process by the server, `python -m module`; does not return."""
    argument, environment = settings_to_argument(settings)
    sys.stdout.flush()
    sys.stderr.flush()
    # -P: the folder a person happens to be in is no place to import modules from.
    command = [sys.executable, "-P", "-m", module, argument]
    os.execve(sys.executable, command, {**os.environ, **environment})


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
