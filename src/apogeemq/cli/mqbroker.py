"""The command `mqbroker`, with Apache's flags and exit statuses, for scripts that call it by that name."""

from __future__ import annotations

import typer

from apogeemq.cli.apache_command import LOG_DIR, run_as_apache
from apogeemq.cli.broker import ConfigFile, NameServers, PrintImportant
from apogeemq.cli.options import HELP_NAMES, PrintConfig

app = typer.Typer(
    name="mqbroker",
    add_completion=False,
    context_settings=HELP_NAMES,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.command()
def mqbroker(
    config_file: ConfigFile = None,
    namesrv_addr: NameServers = None,
    print_config: PrintConfig = False,
    print_important: PrintImportant = False,
) -> None:
    """Start a broker."""
    from apogeemq.cli.start_broker import become_server, read_settings, shown_settings

    settings = read_settings(config_file, {"namesrvAddr": namesrv_addr}, log_dir=LOG_DIR, log_level="INFO")
    settings.program = "mqbroker"
    if print_config or print_important:
        typer.echo(shown_settings(settings, only_important=not print_config), nl=False)
        return
    become_server(settings)


def main() -> None:
    run_as_apache(app, "mqbroker")


if __name__ == "__main__":
    main()
