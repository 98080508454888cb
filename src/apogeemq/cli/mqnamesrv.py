"""The command `mqnamesrv`, with Apache's flags and exit statuses, for scripts that call it by that name."""

from __future__ import annotations

import sys

import typer

from apogeemq.cli.namesrv import HELP_NAMES, ConfigFile, PrintConfig, ProductNameServers
from apogeemq.errors import ApogeeError

LOG_DIR = "~/logs/rocketmqlogs"
USAGE_STATUS = 1
FAILURE_STATUS = 255  # Java's exit(-1)

_TYPER_USAGE_STATUS = 2

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
    try:
        app(prog_name="mqnamesrv")
    except ApogeeError as error:
        print(f"mqnamesrv: {error}", file=sys.stderr)
        sys.exit(FAILURE_STATUS)
    except SystemExit as ending:
        sys.exit(USAGE_STATUS if ending.code == _TYPER_USAGE_STATUS else ending.code)


if __name__ == "__main__":
    main()
