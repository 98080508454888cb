"""What `apogee pipeline validate` and `explain` do and show."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from apogeemq.errors import ConfigError, PipelineInvalid

if TYPE_CHECKING:
    from apogeemq.spark.pipeline.explaining import Explanation
    from apogeemq.spark.pipeline.spec import PipelineSpec


def validate(file: str, params: Sequence[str], *, with_spark: bool, as_json: bool) -> int:
    from apogeemq.spark.pipeline.reading import read_pipeline
    from apogeemq.spark.pipeline.text.parameters import given_parameters

    problems: list[str] = []
    spec = None
    try:
        spec = read_pipeline(file, given_parameters(params))
        if with_spark:
            with _spark(spec) as session:
                from apogeemq.spark.pipeline.explaining import explain

                explain(spec, session)
    except PipelineInvalid as invalid:
        problems = invalid.problems
    except ConfigError as error:
        if spec is None:
            raise
        problems = [f"{spec.file}: {error}"]
    if as_json:
        _print_json({"file": file, "is_valid": not problems, "problems": problems})
    elif problems:
        for problem in problems:
            print(problem)
        print(f"{len(problems)} {'error' if len(problems) == 1 else 'errors'}")
    elif spec is not None:
        print(f"{spec.file} is good: {_counted(spec)}")
    return 1 if problems else 0


def _counted(spec: PipelineSpec) -> str:
    counts = {"source": spec.sources, "step": spec.steps, "quality rule": _rules(spec), "sink": spec.sinks}
    return ", ".join(f"{len(parts)} {name}{'' if len(parts) == 1 else 's'}" for name, parts in counts.items() if parts)


def _rules(spec: PipelineSpec) -> list[str]:
    return [rule for quality in spec.quality.values() for rule in quality.rules]


def explain(file: str, params: Sequence[str], *, with_plans: bool, as_json: bool) -> None:
    from apogeemq.spark.pipeline.explaining import explain as explained
    from apogeemq.spark.pipeline.reading import read_pipeline
    from apogeemq.spark.pipeline.text.parameters import given_parameters

    spec = read_pipeline(file, given_parameters(params))
    with _spark(spec) as session:
        found = explained(spec, session)
    if as_json:
        _print_json(found)
    else:
        _print_explanation(found, with_plans=with_plans)


@contextmanager
def _spark(spec: PipelineSpec) -> Iterator[Any]:
    """For as long as the question takes; a person is told what they wait for."""
    from apogeemq.spark import require_extra

    require_extra()
    from apogeemq.spark.pipeline.sessions import open_session

    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="apogee-pipeline-", ignore_cleanup_errors=True) as folder:
        with console.status("starting Spark"):
            session = open_session(spec, "local[1]", Path(folder))
        try:
            with console.status("asking Spark"):
                yield session
        finally:
            session.stop()


def _print_explanation(found: Explanation, *, with_plans: bool) -> None:
    console = Console(highlight=False)
    console.print(Text.assemble((found.name, "bold"), f"  {found.description}  trigger: {found.trigger}"))
    views = Table("View", "From", "Columns", "Rules", title="Views", title_justify="left", show_lines=True)
    for view in found.views:
        columns = "\n".join(f"{name} {_short(kind)}" for name, kind in view.columns.items())
        kind = f"{view.kind}{' (stream)' if view.is_stream else ''}"
        views.add_row(*map(Text, (view.name, kind, columns, "\n".join(view.rules))))
    console.print(views)
    queries = Table("Query", "Rows of", "Steps", "Writes", title="Queries", title_justify="left", show_lines=True)
    for query in found.queries:
        writes = [f"{sink.name}: {sink.kind} {sink.target} ({sink.mode}, {sink.promise})" for sink in query.sinks]
        if query.dead_letters_of and found.dead_letters:
            writes.append(f"dead letters of {', '.join(query.dead_letters_of)}: {found.dead_letters}")
        head = f"{query.head}{' (keeps state)' if query.keeps_state else ''}"
        queries.add_row(*map(Text, (query.name, head, "\n".join(query.steps), "\n".join(writes))))
    console.print(queries)
    if with_plans:
        for view in found.views:
            console.print(Text(f"\n{view.name}", style="bold"))
            console.print(Text(view.plan))


def _short(kind: str) -> str:
    return kind if len(kind) <= 60 else f"{kind[:59]}…"


def _print_json(value: object) -> None:
    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
