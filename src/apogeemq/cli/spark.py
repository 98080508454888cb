"""`apogee spark`: what a Spark cluster needs to run our formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from apogeemq.cli.options import HELP_NAMES

app = typer.Typer(
    no_args_is_help=True,
    context_settings=HELP_NAMES,
    pretty_exceptions_enable=False,
    help="Prepare Spark clusters for the formats rocketmq, rocketmq-routes and rocketmq-store.",
)


@app.callback()
def spark() -> None:
    """Prepare Spark clusters for the formats rocketmq, rocketmq-routes and rocketmq-store."""


@app.command(name="py-files")
def py_files(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The zip to write, for spark-submit --py-files.")],
    dependencies: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write compiled dependencies there too, and print them for --archives."),
    ] = None,
) -> None:
    """Write this package as a zip for executors that have not installed it."""
    from apogeemq.errors import ConfigError
    from apogeemq.spark.runtime.py_files import as_archives, write_dependencies, write_package

    try:
        typer.echo(write_package(out))
        if dependencies is not None:
            typer.echo(as_archives(write_dependencies(dependencies)))
    except OSError as error:
        raise ConfigError(f"cannot write {error.filename or out}: {error.strerror or error}") from None
