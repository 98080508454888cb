"""The command `mqnamesrv`, with Apache's flags and exit statuses, for scripts that call it by that name."""

from __future__ import annotations

import typer

from apogeemq.cli.apache_command import LOG_DIR, run_as_apache
from apogeemq.cli.namesrv import ConfigFile, ProductNameServers
from apogeemq.cli.options import HELP_NAMES, PrintConfig

app = typer.Typer(
    name="mqnamesrv",
    add_completion=False,
    context_settings=HELP_NAMES,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.command()
def mqnamesrv(
    config_file: ConfigFile = None, namesrv_addr: ProductNameServers = None, print_config: PrintConfig = False
) -> None:
    """Start a name server."""
    from apogeemq.cli.start_nameserver import become_server, read_settings, shown_settings

    settings = read_settings(config_file, {"productNamesrvAddr": namesrv_addr}, log_dir=LOG_DIR, log_level="INFO")
    settings.program = "mqnamesrv"
    if print_config:
        typer.echo(shown_settings(settings), nl=False)
        return
    become_server(settings)


def main() -> None:
    run_as_apache(app, "mqnamesrv")


if __name__ == "__main__":
    main()
