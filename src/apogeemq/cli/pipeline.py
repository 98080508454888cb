"""`apogee pipeline`: run pipelines on Spark, check them, and look at them while they run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from apogeemq.cli.options import HELP_NAMES, AsJson

app = typer.Typer(
    no_args_is_help=True,
    context_settings=HELP_NAMES,
    pretty_exceptions_enable=False,
    help="Run pipelines on Spark: one TOML file of sources, SQL steps, quality rules and sinks.",
)

File = Annotated[str, typer.Argument(metavar="FILE", help="A pipeline file, or the name of a ready pipeline.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The pipeline's name, as its file gives it.")]
Params = Annotated[
    list[str] | None, typer.Option("--param", metavar="NAME=VALUE", help=r"A value of \[params]; may be repeated.")
]
Master = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Spark's master: spark://host:7077, yarn, k8s://…; without it, this machine."),
]
Once = Annotated[bool, typer.Option("--once", help="Do all there is now, then end.")]
Continuous = Annotated[bool, typer.Option("--continuous", help="Go on until stopped.")]
UserInterface = Annotated[bool, typer.Option("--ui", help="Serve Spark's own web pages.")]
StateDir = Annotated[
    Path | None,
    typer.Option(
        "--state", metavar="DIR", envvar="APOGEE_PIPELINES", help="Folder of states and logs (~/.apogee/pipelines)."
    ),
]


@app.command()
def run(
    file: File,
    master: Master = None,
    once: Once = False,
    continuous: Continuous = False,
    params: Params = None,
    state: StateDir = None,
    ui: UserInterface = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each change of status.")] = False,
    accept_changes: Annotated[
        bool,
        typer.Option("--accept-changes", help="Go on, or begin anew, though the run before was to do something else."),
    ] = False,
) -> None:
    """Run a pipeline.

    Ctrl-C, SIGTERM or `apogee pipeline stop` ends it when its epochs are finished; a second Ctrl-C at once.

    Exit status: 0 done or stopped, 1 the pipeline failed, 2 the file or the command is wrong, 130 interrupted before
    all was done.
    """
    from apogeemq.cli.pipelines import running

    job = running.Job(file, master, once, continuous, params or [], state, ui, as_json, accept_changes)
    raise typer.Exit(running.run(job))


@app.command()
def replay(
    file: File,
    since: Annotated[
        str,
        typer.Option(
            "--from", metavar="TIME", help="2026-01-31T12:00, milliseconds since 1970, or 2h for so long ago."
        ),
    ],
    master: Master = None,
    once: Once = False,
    continuous: Continuous = False,
    params: Params = None,
    state: StateDir = None,
    ui: UserInterface = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each change of status.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask: the answer is yes.")] = False,
) -> None:
    """Run a pipeline again from a moment in the past, with a new checkpoint.

    What sinks have stays there: rows since that moment are written once more. A pipeline without streams cannot be
    replayed: each run reads all its tables.

    Exit status: that of run; 130 also when the question was answered with no, or not at all.
    """
    from apogeemq.cli.pipelines import running

    job = running.Job(file, master, once, continuous, params or [], state, ui, as_json)
    raise typer.Exit(running.replay(job, since, asks=not yes))


@app.command()
def validate(
    file: File,
    params: Params = None,
    with_spark: Annotated[
        bool, typer.Option("--spark", help="Start Spark too, and check columns, types and queries.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check a pipeline file: all errors at once, each with its line.

    Exit status: 0 it is good, 1 it is not, 2 there is no such file.
    """
    from apogeemq.cli.pipelines import checks

    raise typer.Exit(checks.validate(file, params or [], with_spark=with_spark, as_json=as_json))


@app.command()
def explain(
    file: File,
    params: Params = None,
    plans: Annotated[bool, typer.Option("--plans", help="Show Spark's plan of each view.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a pipeline becomes: views with their columns, queries, sinks and what they promise. Starts Spark."""
    from apogeemq.cli.pipelines import checks

    checks.explain(file, params or [], with_plans=plans, as_json=as_json)


@app.command(name="list")
def list_pipelines(state: StateDir = None, as_json: AsJson = False) -> None:
    """List ready pipelines, and those that have run here."""
    from apogeemq.cli.pipelines import views

    views.show_list(state, as_json=as_json)


@app.command()
def status(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="All that have run here if none is named.")
    ] = None,
    state: StateDir = None,
    as_json: AsJson = False,
) -> None:
    """Show how far pipelines are: rows, rate, lag, offsets, the last error.

    Exit status: 1 when a pipeline shown has failed or its status is damaged, 2 when the one that is named cannot be
    shown, else 0.
    """
    from apogeemq.cli.pipelines import views

    raise typer.Exit(views.show_status(name, state, as_json=as_json))


@app.command()
def stop(
    name: Name,
    state: StateDir = None,
    timeout: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="How long to wait for its end.")] = 600.0,
) -> None:
    """Let a running pipeline finish its epochs and end; wait until it has.

    Exit status: 0 it has ended, 1 it was not running, or has not ended in time.
    """
    from apogeemq.cli.pipelines import views

    raise typer.Exit(views.stop(name, state, timeout))
