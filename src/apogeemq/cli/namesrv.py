"""`apogee namesrv`: start a name server, or look at running ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from apogeemq.cli.options import HELP_NAMES, Address, AsJson, Bind, Level, LogDir, LogLevel, PrintConfig, TlsConfig

ConfigFile = Annotated[Path | None, typer.Option("-c", "--configFile", help="Name server config properties file.")]
ProductNameServers = Annotated[
    str | None,
    typer.Option(
        "-n",
        "--namesrvAddr",
        help="The product environment's name servers, for cluster-test mode: '192.168.0.1:9876;192.168.0.2:9876'.",
    ),
]

app = typer.Typer(context_settings=HELP_NAMES, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    config_file: ConfigFile = None,
    namesrv_addr: ProductNameServers = None,
    print_config: PrintConfig = False,
    bind: Bind = None,
    port: Annotated[
        int | None, typer.Option(metavar="N", help="Port to listen on (9876); 0 takes any free port and prints it.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for KV table, snapshot and journal (~/namesrv).")
    ] = None,
    log_dir: LogDir = None,
    log_level: Level = LogLevel.INFO,
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


@app.command()
def routes(
    address: Address,
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPIC]...", help="All topics if none is named.")
    ] = None,
    as_json: AsJson = False,
    tls_config: TlsConfig = None,
) -> None:
    """Show who serves which topic."""
    from apogeemq.cli import connecting, nameserver_views

    raise typer.Exit(
        connecting.run(nameserver_views.show_routes(address, topics or [], as_json=as_json, tls_config=tls_config))
    )


@app.command()
def journal(
    address: Address,
    from_sequence: Annotated[int, typer.Option("--from", metavar="N", help="First number to show.")] = 1,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more until interrupted.")] = False,
    tls_config: TlsConfig = None,
) -> None:
    """Print the route journal: every change of a route, one line of JSON each."""
    from apogeemq.cli import connecting, nameserver_views

    connecting.run(nameserver_views.show_journal(address, from_sequence, follow=follow, tls_config=tls_config))


@app.command()
def diff(
    addresses: Annotated[list[str], typer.Argument(metavar="ADDR ADDR...", help="Two name servers or more.")],
    namespaces: Annotated[
        list[str] | None,
        typer.Option("--namespace", metavar="NAME", help="Compare this KV namespace of Apache's name servers too."),
    ] = None,
    as_json: AsJson = False,
    tls_config: TlsConfig = None,
) -> None:
    """Compare what several name servers say: brokers, routes and KV config.

    Exit status: 0 they agree, 1 they differ, 2 one could not be asked.
    """
    from apogeemq.cli import connecting, nameserver_views

    if len(addresses) < 2:
        raise typer.BadParameter("at least two name servers are needed to compare")
    raise typer.Exit(
        connecting.run(
            nameserver_views.show_differences(addresses, namespaces or [], as_json=as_json, tls_config=tls_config)
        )
    )
