"""`apogee broker`: start a broker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from apogeemq.cli.options import Bind, Level, LogDir, LogLevel, PrintConfig

ConfigFile = Annotated[Path | None, typer.Option("-c", "--configFile", help="Broker config properties file.")]
NameServers = Annotated[
    str | None,
    typer.Option("-n", "--namesrvAddr", help="Name server address list, eg: '192.168.0.1:9876;192.168.0.2:9876'."),
]
PrintImportant = Annotated[
    bool, typer.Option("-m", "--printImportantConfig", help="Print important config items, then exit.")
]


def start(
    config_file: ConfigFile = None,
    namesrv_addr: NameServers = None,
    print_config: PrintConfig = False,
    print_important: PrintImportant = False,
    bind: Bind = None,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Port to listen on (10911), with N-2 beside it; 0 takes free ports and prints the first."
        ),
    ] = None,
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the store (~/store).")] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="The broker's name (the host's).")] = None,
    advertise: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="What clients are told to connect to (the address listened on, or this machine's if that is all).",
        ),
    ] = None,
    log_dir: LogDir = None,
    log_level: Level = LogLevel.INFO,
    http_port: Annotated[
        int | None, typer.Option(metavar="N", help="Serve /metrics and /healthz on this port.")
    ] = None,
) -> None:
    """Start a broker."""
    from apogeemq.cli.start_broker import become_server, read_settings, shown_settings

    flags = {
        "namesrvAddr": namesrv_addr,
        "bindAddress": bind,
        "listenPort": port,
        "storePathRootDir": data,
        "brokerName": name,
        "advertise": advertise,
        "httpPort": http_port,
    }
    settings = read_settings(config_file, flags, log_dir=log_dir, log_level=log_level.value)
    if print_config or print_important:
        typer.echo(shown_settings(settings, only_important=not print_config), nl=False)
        return
    become_server(settings)
