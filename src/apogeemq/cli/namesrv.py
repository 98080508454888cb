"""`apogee namesrv`: start a name server, or look at running ones."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

HELP_NAMES = {"help_option_names": ["-h", "--help"]}

ConfigFile = Annotated[Path | None, typer.Option("-c", "--configFile", help="Name server config properties file.")]
ProductNameServers = Annotated[
    str | None,
    typer.Option(
        "-n",
        "--namesrvAddr",
        help="The product environment's name servers, for cluster-test mode: '192.168.0.1:9876;192.168.0.2:9876'.",
    ),
]
PrintConfig = Annotated[bool, typer.Option("-p", "--printConfigItem", help="Print all config items, then exit.")]

app = typer.Typer(context_settings=HELP_NAMES, pretty_exceptions_enable=False)


class LogLevel(StrEnum):
    """As the logging module names them."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    config_file: ConfigFile = None,
    namesrv_addr: ProductNameServers = None,
    print_config: PrintConfig = False,
    bind: Annotated[str | None, typer.Option(metavar="HOST", help="Address to listen on (0.0.0.0).")] = None,
    port: Annotated[
        int | None, typer.Option(metavar="N", help="Port to listen on (9876); 0 takes any free port and prints it.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for KV table, snapshot and journal (~/namesrv).")
    ] = None,
    log_dir: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder for log files (DATA/logs); '' logs to the terminal only.")
    ] = None,
    log_level: Annotated[LogLevel, typer.Option(case_sensitive=False, help="Least level that is logged.")] = (
        LogLevel.INFO
    ),
    http_port: Annotated[
        int | None, typer.Option(metavar="N", help="Serve /metrics, /healthz and /routes on this port.")
    ] = None,
) -> None:
    """Start a name server, or with a command below look at running ones."""
    if context.invoked_subcommand is not None:
        return
    from apogeemq.cli.start_nameserver import become_server, read_settings, shown_settings

    flags = {
        "productNamesrvAddr": namesrv_addr,
        "bindAddress": bind,
        "listenPort": port,
        "dataDir": data,
        "httpPort": http_port,
    }
    settings = read_settings(config_file, flags, log_dir=log_dir, log_level=log_level.value)
    if print_config:
        typer.echo(shown_settings(settings), nl=False)
        return
    become_server(settings)
