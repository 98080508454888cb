"""What `apogee pipeline list`, `status` and `stop` do and show, and what is seen of a pipeline while it runs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from apogeemq.runtime.clock import now_ms

if TYPE_CHECKING:
    from apogeemq.spark.pipeline.progress import PipelineStatus, QueryStatus
    from apogeemq.spark.pipeline.status import StateFolder

_LOOK_SECONDS: Final = 0.2
_NO_LIMIT: Final = 100_000
_HINTS: Final = {
    "starting": "Ctrl-C ends it",
    "running": "Ctrl-C ends it after this epoch",
    "stopping": "after this epoch; Ctrl-C once more ends it at once",
}
_STYLES: Final = {
    "running": "green",
    "finished": "green",
    "failed": "red",
    "damaged": "red",
    "stopping": "yellow",
    "starting": "cyan",
}


# -- list ----------------------------------------------------------------------------------------------------


def show_list(folder: Path | None, *, as_json: bool) -> None:
    from apogeemq.spark.pipeline.reading import read_description, ready_pipelines
    from apogeemq.spark.pipeline.status import known_statuses

    ready = {name: read_description(path) for name, path in ready_pipelines().items()}
    statuses = known_statuses(_folder(folder))
    if as_json:
        _print_json({"ready": ready, "pipelines": statuses})
        return
    console = wide_console()
    table = Table("Name", "What it does", title="Ready pipelines", title_justify="left")
    for name, description in ready.items():
        table.add_row(*map(Text, (name, description)))
    console.print(table)
    if statuses:
        console.print(_overview(statuses))


def _overview(statuses: Sequence[PipelineStatus]) -> Table:
    table = Table(
        "Name", "State", "Rows", "Lag", "Dead letters", "Updated", "File", title="Pipelines that have run here"
    )
    table.title_justify = "left"
    for status in statuses:
        cells = (
            f"{status.rows:,}",
            number(status.lag),
            f"{status.dead_letters:,}",
            when(status.updated_ms),
            status.file,
        )
        table.add_row(Text(status.name), state_text(status), *map(Text, cells))
    return table


# -- status --------------------------------------------------------------------------------------------------


def show_status(name: str | None, folder: Path | None, *, as_json: bool) -> int:
    from apogeemq.spark.pipeline.status import find_state, known_statuses

    where = _folder(folder)
    statuses = [find_state(where, name).present()] if name is not None else known_statuses(where)
    if as_json:
        _print_json(statuses[0] if name is not None else statuses)
    else:
        console = wide_console()
        for status in statuses:
            console.print(status_view(status, now_ms()))
        if not statuses:
            console.print("No pipeline has run here.")
    return 1 if any(status.state in ("failed", "damaged") for status in statuses) else 0


def status_view(status: PipelineStatus, now: int) -> Group:
    """Everything there is to say."""
    if status.state == "damaged":
        return Group(Text.assemble((status.name, "bold"), "  ", state_text(status)), _last_error(status))
    parts: list[RenderableType] = [headline(status, now), query_table(status)]
    offsets = Table("Query", "Source", "Offsets read", "Latest", "Lag")
    for query in status.queries:
        for source in query.sources:
            read, latest = offsets_text(source.end), offsets_text(source.latest)
            cells = (query.name, source.description, read, latest, number(source.lag))
            offsets.add_row(*map(Text, cells))
    if offsets.row_count:
        parts.append(offsets)
    parts.append(
        Text(f"process {status.process} on {status.host}, Spark {status.master or '—'}, log {status.log_file}")
    )
    parts.append(Text(f"checkpoint {status.checkpoint}"))
    if status.error:
        parts.append(_last_error(status))
    return Group(*parts)


def _last_error(status: PipelineStatus) -> Text:
    return Text(printable(f"last error: {status.error}"), style="red")


def headline(status: PipelineStatus, now: int) -> Text:
    seconds = max(0, (status.updated_ms if status.state.is_over else now) - status.started_ms) // 1000
    return Text.assemble(
        (status.name, "bold"),
        "  ",
        state_text(status),
        f"  {status.rows:,} rows  {status.rows_per_second:,.0f} rows/s  lag {number(status.lag)}  {seconds:,} s",
        (f"  {status.late_rows:,} late rows left out" if status.late_rows else "", "yellow"),
    )


def query_table(status: PipelineStatus) -> Table:
    late = ["Late"] if status.late_rows else []
    table = Table("Query", "Epoch", "Rows", "Rows/s", "Lag", "Dead letters", *late, "Written")
    for query in status.queries:
        written = ", ".join(f"{name} {rows:,}" for name, rows in query.sinks.items())
        broken = ", ".join(f"{rule} {rows:,}" for rule, rows in query.broken.items() if rows)
        dead = f"{query.dead_letters:,}" + (f" ({broken})" if broken else "")
        numbers = (str(max(query.epoch, 0)), f"{query.rows:,}", f"{query.rows_per_second:,.0f}", number(query.lag))
        late_rows = [f"{query.late_rows:,}"] if late else []
        table.add_row(*map(Text, (query.name, *numbers, dead, *late_rows, written)))
    return table


def running_view(status: PipelineStatus, now: int) -> Group:
    """What a person sees while it runs: less than everything, and a bar where there is an end."""
    parts: list[RenderableType] = [headline(status, now), query_table(status)]
    if bars := [bar for query in status.queries for bar in _bars(query, is_bounded=status.is_bounded)]:
        grid = Table.grid(padding=(0, 1))
        for bar in bars:
            grid.add_row(*bar)
        parts.append(grid)
    hint = _HINTS.get(status.state, "")
    parts.append(Text(f"Spark's log: {status.log_file}   {hint}".rstrip(), style="dim"))
    return Group(*parts)


def _bars(query: QueryStatus, *, is_bounded: bool) -> Iterator[tuple[RenderableType, ...]]:
    """Rows of the whole run, where it has an end, and tasks of what Spark is doing at this moment."""
    if is_bounded and query.total:
        done = query.total if not query.is_active and query.error is None else min(query.rows, query.total)
        yield Text(query.name), ProgressBar(query.total, done, width=40), Text(f"{done:,}/{query.total:,} rows")
    elif is_bounded and query.is_active:
        yield Text(query.name), ProgressBar(None, width=40, pulse=True), Text("")
    if (current := query.current) is not None:
        rows = "" if current.rows is None else f", {current.rows:,} rows"
        bar = ProgressBar(current.tasks, current.tasks_done, width=40, pulse=not current.tasks)
        tasks = f": {current.tasks_done:,}/{current.tasks:,} tasks" if current.tasks else ""
        yield Text(query.name), bar, Text(f"epoch {current.epoch}{rows}{tasks}")


def state_text(status: PipelineStatus) -> Text:
    return Text(status.state, style=_STYLES.get(status.state, ""))


def result_table(name: str, epoch: int, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """What a console sink shows."""
    table = Table(title=Text(f"{name}, epoch {epoch}"), title_justify="left")
    for column in columns:
        table.add_column(Text(printable(column)), overflow="fold")  # a narrow terminal cuts nothing off
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    return table


def _cell(value: Any) -> str:
    if value is None:
        return "—"
    if isinstance(value, bytes | bytearray):
        return printable(bytes(value).decode(errors="backslashreplace"))
    return printable(str(value))


def printable(text: str) -> str:
    """What a message holds must not give orders to a terminal; lines stay lines."""
    return "".join(one if one == "\n" or one.isprintable() else one.encode("unicode_escape").decode() for one in text)


# -- stop ----------------------------------------------------------------------------------------------------


def stop(name: str, folder: Path | None, timeout: float) -> int:
    from apogeemq.spark.pipeline.status import find_state

    state = find_state(_folder(folder), name)
    console = Console(stderr=True)
    if not state.is_held():
        console.print(f"The pipeline {name} is not running: {state.present().state}.", highlight=False)
        return 1
    state.ask_to_stop()
    with console.status(f"{name} finishes its epochs"):
        has_ended = _wait_for_end(state, timeout)
    if not has_ended:
        console.print(f"{name} has not ended in {timeout:g} seconds; it still will.", highlight=False)
        return 1
    wide_console().print(headline(state.present(), now_ms()))
    return 0


def _wait_for_end(state: StateFolder, timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    while state.is_held():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


# -- words ---------------------------------------------------------------------------------------------------


def number(value: int | None) -> str:
    return "—" if value is None else f"{value:,}"


def when(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000).strftime("%Y-%m-%d %H:%M:%S") if time_ms else "—"


def _folder(folder: Path | None) -> Path:
    from apogeemq.spark.pipeline.status import states_folder

    return folder if folder is not None else states_folder()


def offsets_text(value: Any) -> str:
    """Offsets as sources write them, a line for each innermost group: `orders b0: 0=17 1=5`."""
    if value is None:
        return "—"
    if not isinstance(value, dict):
        return _json(value)
    return "\n".join(_offset_lines(value)) or "—"


def _offset_lines(group: dict[str, Any], *path: str) -> Iterator[str]:
    plain = " ".join(f"{key}={_json(value)}" for key, value in group.items() if not isinstance(value, dict))
    if plain:
        yield f"{' '.join(path)}: {plain}" if path else plain
    for key, value in group.items():
        if isinstance(value, dict):
            yield from _offset_lines(value, *path, key)


def wide_console() -> Console:
    """Where there is no terminal, lines are as long as they are."""
    console = Console()
    return console if console.is_terminal else Console(width=_NO_LIMIT)


def _json(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _print_json(value: object) -> None:
    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
