"""How far a pipeline is: what Spark reports of epochs, put together into a status to be kept and shown. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from apogeemq.spark.first_batch import beginning_of, is_not_begun, without_beginning

_FILES_OFFSET: Final = "logOffset"  # a count of Spark's own looks into a folder
_ADDRESS: Final = re.compile(r"@[0-9a-f]+$")


class State(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"  # after the epochs that are being done
    STOPPED = "stopped"  # by a person
    FINISHED = "finished"  # all there was has been done
    FAILED = "failed"
    DAMAGED = "damaged"  # nobody knows: what is kept of it cannot be read

    @property
    def is_over(self) -> bool:
        return self in (State.STOPPED, State.FINISHED, State.FAILED)


class SourceStatus(msgspec.Struct, frozen=True):
    description: str
    start: Any = None  # offsets as the source writes them
    end: Any = None
    latest: Any = None
    lag: int | None = None  # None: the source does not say


class EpochCounts(msgspec.Struct, frozen=True):
    """What the runner itself counted in one epoch."""

    rows: int | None = None
    sinks: Mapping[str, int] = {}
    broken: Mapping[str, int] = {}  # rows by "view.rule"
    dead_letters: int = 0


class CurrentEpoch(msgspec.Struct, frozen=True):
    """One that is being done."""

    epoch: int
    rows: int | None = None  # None: the source does not say
    tasks: int = 0  # of what Spark is doing for it at this moment
    tasks_done: int = 0


class QueryStatus(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    sinks: Mapping[str, int] = {}  # rows written since the start, by sink that counts them
    epoch: int = -1
    epochs: int = 0
    rows: int = 0  # read since the start
    total: int | None = None  # of a bounded run: rows there are to read
    rows_per_second: float = 0.0
    lag: int | None = None
    broken: Mapping[str, int] = {}
    dead_letters: int = 0
    late_rows: int = 0  # left out by steps that keep state since the start: the watermark had passed them
    sources: list[SourceStatus] = []
    current: CurrentEpoch | None = None
    is_active: bool = True
    error: str | None = None


class PipelineStatus(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    state: State
    file: str = ""
    process: int = 0
    host: str = ""
    master: str = ""
    checkpoint: str = ""
    log_file: str = ""
    is_bounded: bool = False
    started_ms: int = 0
    updated_ms: int = 0
    queries: list[QueryStatus] = []
    error: str | None = None

    @property
    def rows(self) -> int:
        return sum(max(query.rows for query in readers) for readers in self._readers())

    @property
    def rows_per_second(self) -> float:
        return sum(max(query.rows_per_second for query in readers) for readers in self._readers())

    @property
    def dead_letters(self) -> int:
        return sum(query.dead_letters for query in self.queries)

    @property
    def late_rows(self) -> int:
        return sum(query.late_rows for query in self.queries)

    @property
    def lag(self) -> int | None:
        return _sum([max(known, default=None) for known in map(_known_lags, self._readers())])

    def _readers(self) -> list[list[QueryStatus]]:
        """Queries of the same sources read the same rows, which count once."""
        found: dict[tuple[str, ...], list[QueryStatus]] = {}
        for query in self.queries:
            sources = tuple(sorted(source.description for source in query.sources))
            found.setdefault(sources or ("", query.name), []).append(query)
        return list(found.values())


def _known_lags(queries: Sequence[QueryStatus]) -> list[int]:
    return [query.lag for query in queries if query.lag is not None]


def after_planning(status: QueryStatus, epoch: int, found: Sequence[Mapping[str, Any]]) -> QueryStatus:
    """With an epoch that has begun, and its sources as Spark reports them at its end, as far as they are known."""
    if not found:
        return msgspec.structs.replace(status, current=CurrentEpoch(epoch))
    sources = [_source(source) for source in found]
    rows = [distance(source.start, source.end) for source in sources]
    lags = [distance(source.start, source.latest) for source in sources]  # nothing of it has been written yet
    return msgspec.structs.replace(
        status,
        current=CurrentEpoch(epoch, _sum(rows)),
        lag=_sum(lags),
        total=status.total if status.total is not None else _total(sources),
        sources=sources,
    )


def after_progress(status: QueryStatus, progress: Mapping[str, Any]) -> QueryStatus:
    """With one progress report of Spark's, as its JSON. Several of one epoch come while nothing happens: those have no
    rows, late ones neither."""
    sources = [_source(source) for source in progress.get("sources", [])]
    rows = _rows(progress, sources)
    return msgspec.structs.replace(
        status,
        epoch=max(status.epoch, int(progress.get("batchId", -1))),
        rows_per_second=float(progress.get("processedRowsPerSecond") or 0.0) if rows else 0.0,
        lag=_sum([source.lag for source in sources]),
        total=status.total if status.total is not None else _total(sources),
        late_rows=status.late_rows + _late_rows(progress),
        sources=sources,
    )


def after_epoch(status: QueryStatus, epoch: int, counts: EpochCounts) -> QueryStatus:
    """With one epoch that has been written."""
    return msgspec.structs.replace(
        status,
        epoch=epoch,
        epochs=status.epochs + 1,
        current=None,
        sinks=_added(status.sinks, counts.sinks),
        broken=_added(status.broken, counts.broken),
        dead_letters=status.dead_letters + counts.dead_letters,
    )


def epoch_rows(progress: Mapping[str, Any]) -> int:
    """Rows that the epoch of a report has read."""
    return _rows(progress, [_source(source) for source in progress.get("sources", [])])


def last_done(progress: Mapping[str, Any]) -> int:
    """The last epoch that is over when a report is made: of one that had nothing to do, it is the one before."""
    epoch = int(progress["batchId"])
    return epoch if "addBatch" in progress.get("durationMs", {}) else epoch - 1


def source_name(description: str, streams: Mapping[str, str]) -> str:
    """For a person: a description that is no more than a Java object's address becomes what the file says of it.

    `streams` are the sources a query may read: formats by name.
    """
    if not _ADDRESS.search(description) or not streams:
        return description
    if len(streams) == 1:
        ((name, kind),) = streams.items()
        return f"{name} ({kind})"
    return " or ".join(dict.fromkeys(streams.values()))


def distance(start: Any, end: Any) -> int | None:
    """How far two offsets of one source are apart: the sum over their numbers. None when they have none.

    A queue that only the end knows is new: it has been read from nowhere, and counts as a whole.
    """
    if isinstance(end, bool) or isinstance(start, bool):
        return None
    if isinstance(end, int):
        return max(0, end - start) if isinstance(start, int) else end
    if not isinstance(end, dict) or _FILES_OFFSET in end:
        return None
    known = start if isinstance(start, dict) else {}
    parts = [part for key, value in end.items() if (part := distance(known.get(key), value)) is not None]
    return sum(parts) if parts else None


def _late_rows(progress: Mapping[str, Any]) -> int:
    """Of operators with state, not of sources: an aggregation is given one row for many that go together."""
    operators = progress.get("stateOperators") or []
    return sum(int(operator.get("numRowsDroppedByWatermark") or 0) for operator in operators)


def _total(sources: list[SourceStatus]) -> int | None:
    """Rows there are to read, as the first report of a run tells it."""
    return _sum([distance(source.start, source.latest) for source in sources])


def _sum(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _source(found: Mapping[str, Any]) -> SourceStatus:
    """Spark knows no start of a first epoch, but its end may; which is the start, too, while nothing follows it."""
    start, end, latest = (found.get(key) for key in ("startOffset", "endOffset", "latestOffset"))
    if start is None or (isinstance(start, dict) and is_not_begun(start)):
        start = beginning_of(end) if isinstance(end, dict) else None
    start, end = _positions(start), _positions(end)
    lag = distance(end, latest) if end is not None and latest is not None else None
    return SourceStatus(str(found.get("description", "")), start, end, latest, lag)


def _positions(offset: Any) -> Any:
    return without_beginning(offset) if isinstance(offset, dict) else offset


def _rows(progress: Mapping[str, Any], sources: list[SourceStatus]) -> int:
    """Spark counts a row each time it is read, and an epoch may read its rows more than once; offsets do not lie."""
    rows = int(progress.get("numInputRows") or 0)
    if not sources or any(source.start is None for source in sources):
        return rows
    between = [distance(source.start, source.end) for source in sources]
    known = [found for found in between if found is not None]
    return min(rows, sum(known)) if len(known) == len(sources) else rows


def _added(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {key: one.get(key, 0) + other.get(key, 0) for key in dict.fromkeys(_keys(one, other))}


def _keys(*mappings: Mapping[str, int]) -> Iterator[str]:
    for mapping in mappings:
        yield from mapping
