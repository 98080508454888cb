"""The command `apogee`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from apogeemq import __version__
from apogeemq.cli import archive, broker, namesrv, pipeline, spark
from apogeemq.cli.demo.command import demo
from apogeemq.cli.options import HELP_NAMES
from apogeemq.errors import ApogeeError

FAILURE_STATUS = 2

app = typer.Typer(
    name="apogee",
    no_args_is_help=True,
    context_settings=HELP_NAMES,
    pretty_exceptions_enable=False,
)
app.add_typer(namesrv.app, name="namesrv")
app.command(name="broker")(broker.start)
app.add_typer(archive.app, name="archive")
app.add_typer(pipeline.app, name="pipeline")
app.add_typer(spark.app, name="spark")
app.command(name="demo")(demo)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"apogee {__version__}")
        raise typer.Exit


@app.callback()
def apogee(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version, then exit.")
    ] = False,
) -> None:
    """ApogeeMQ: the RocketMQ system in Python."""


def main() -> None:
    """Run it; what goes wrong for a reason we know is one sentence on stderr and status 2."""
    try:
        app(prog_name="apogee")
    except ApogeeError as error:
        print(f"apogee: {error}", file=sys.stderr)
        sys.exit(FAILURE_STATUS)


if __name__ == "__main__":
    main()
