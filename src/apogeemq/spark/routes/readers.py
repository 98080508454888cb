"""Batch and stream reads of route journals: the driver asks where they begin and end, executors read them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from apogeemq.errors import EventsLost
from apogeemq.spark.first_batch import Offset, beginning_of, first_end, is_not_begun, not_begun, without_beginning
from apogeemq.spark.idle_pause import IdlePause
from apogeemq.spark.routes.journals import journals_of
from apogeemq.spark.routes.read_options import EARLIEST, LATEST, RouteOptions
from apogeemq.spark.routes.schema import to_batch
from apogeemq.spark.routes.sequences import (
    JournalBounds,
    JournalRange,
    Sequences,
    available_start,
    limited,
    lost,
    ranges,
    resolve,
)

log = logging.getLogger(__name__)


class JournalPartition(InputPartition):
    """A range of one journal: its order is kept within a task."""

    def __init__(self, wanted: JournalRange) -> None:
        super().__init__(wanted)
        self.wanted = wanted


class RouteBatchReader(DataSourceReader):
    def __init__(self, options: RouteOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Every name server must answer: a result that lacks one would look like the whole."""
        bounds = _all_answered(self._options)
        start = resolve("startingSequence", self._options.starting, bounds, bounds)
        start = _checked(self._options, start, bounds)
        end = resolve("endingSequence", self._options.ending, bounds, bounds)
        for name, number in end.items():
            if number > bounds[name].end:
                problem = f"the route journal of {name} ends before {bounds[name].end}, not at {number}"
                _complain(self._options, problem)
                end[name] = bounds[name].end
        return [JournalPartition(wanted) for wanted in ranges(start, end) if start[wanted.name_server] < wanted.end]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from _read(self._options, partition)


class RouteStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The offset is the number of the next event by name server. One that does not answer stays where it is, as long as
    another one does."""

    def __init__(self, options: RouteOptions) -> None:
        self._options = options
        self._last_end: Sequences | None = None  # of a query that reads what is there and ends
        self._latest: Sequences | None = None
        self._pause = IdlePause()

    def initialOffset(self) -> Offset:
        """It is looked up with the first batch, which is the only one that Spark asks for it, and keeps it."""
        return not_begun()

    def _beginning(self) -> Sequences:
        """A name server that is silent for now is read from its oldest event later, or from the number it was given;
        its latest one it has to say."""
        starting, bounds = self._options.starting, dict[str, JournalBounds]()
        if starting == LATEST:
            bounds = _all_answered(self._options)
        elif starting == EARLIEST:
            bounds = _answered(self._options)
        name_servers = journals_of(self._options.connection).name_servers()
        return resolve("startingSequence", starting, bounds, name_servers)

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.max_events_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        self._last_end = _ends(_answered(self._options))

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """The same start where there is nothing new, but for the first one: Spark makes that batch in any case."""
        with self._pause.around(start):
            if is_not_begun(start):
                beginning = self._beginning()
                return first_end(beginning, self._next(beginning, limit))
            positions = without_beginning(start)
            end = self._next(positions, limit)
            return start if end == positions else end

    def _next(self, start: Sequences, limit: ReadLimit) -> Sequences:
        bounds = _answered(self._options)
        self._latest = end = _ends(bounds)
        if self._last_end is not None:
            end = {name: min(number, end[name]) for name, number in self._last_end.items() if name in end}
        known = {name: start.get(name, bounds[name].first) for name in end}
        begin = _checked(self._options, known, bounds)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        # After the last end there is nothing: not even in a journal that has gone on since.
        end = {name: max(number, begin[name]) for name, number in end.items()}
        return {**start, **limited(begin, end, most)}

    def reportLatestOffset(self) -> Sequences | None:
        return self._latest

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        begin = beginning_of(end) if is_not_begun(start) else without_beginning(start)
        if begin is None:
            begin = self._beginning()
        return [JournalPartition(wanted) for wanted in ranges(begin, without_beginning(end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from _read(self._options, partition)


def _all_answered(options: RouteOptions) -> dict[str, JournalBounds]:
    """Of every name server, or the failure of one of them after all attempts."""
    journals = journals_of(options.connection)
    bounds, failed = journals.bounds(journals.name_servers())
    for error in failed.values():
        raise error
    return bounds


def _answered(options: RouteOptions) -> dict[str, JournalBounds]:
    """Of those that answer at once; when none does, they are asked again and again, and the last failure is raised."""
    journals = journals_of(options.connection)
    name_servers = journals.name_servers()
    bounds, failed = journals.bounds(name_servers, is_patient=False)
    if not bounds:
        bounds, failed = journals.bounds(name_servers)
    for name, error in failed.items():
        if not bounds:
            raise error
        log.warning("nothing new from the route journal of %s: %s", name, error)
    return bounds


def _ends(bounds: Mapping[str, JournalBounds]) -> Sequences:
    return {name: found.end for name, found in bounds.items()}


def _checked(options: RouteOptions, start: Mapping[str, int], bounds: Mapping[str, JournalBounds]) -> Sequences:
    """The same numbers, where the journals still have them; otherwise EventsLost, or the oldest there are."""
    checked: Sequences = {}
    for name, number in start.items():
        problem = lost(name, number, bounds[name])
        if problem is not None:
            _complain(options, problem)
        checked[name] = available_start(number, bounds[name])
    return checked


def _complain(options: RouteOptions, problem: str) -> None:
    if options.fail_on_data_loss:
        raise EventsLost(f"{problem} (option failOnDataLoss=false goes on with what is there)")
    log.warning("%s", problem)


def _read(options: RouteOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, JournalPartition):
        return  # Spark's own, when there is nothing to read
    wanted = partition.wanted
    for lines in journals_of(options.connection).read(wanted, fail_on_data_loss=options.fail_on_data_loss):
        yield to_batch(wanted.name_server, lines)
