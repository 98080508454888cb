"""Reports of Spark put together into a status."""

from __future__ import annotations

from typing import Any

import pytest

from apogeemq.spark.first_batch import first_end, not_begun
from apogeemq.spark.pipeline.progress import (
    CurrentEpoch,
    EpochCounts,
    PipelineStatus,
    QueryStatus,
    SourceStatus,
    State,
    after_epoch,
    after_planning,
    after_progress,
    distance,
    epoch_rows,
    last_done,
    source_name,
)


def offsets(first: int, second: int) -> dict[str, Any]:
    return {"orders": {"a": {"0": first, "1": second}}}


def report(epoch: int, start: Any, end: Any, latest: Any, rows: int) -> dict[str, Any]:
    source = {"description": "rocketmq", "startOffset": start, "endOffset": end, "latestOffset": latest}
    return {"batchId": epoch, "numInputRows": rows, "processedRowsPerSecond": 12.5, "sources": [source]}


@pytest.mark.parametrize(
    ("start", "end", "apart"),
    [
        (offsets(1, 2), offsets(11, 4), 12),
        ({}, offsets(3, 4), 7),
        (None, offsets(3, 4), 7),
        (offsets(5, 5), offsets(3, 6), 1),  # a queue that was made anew is not behind itself
        ({"orders": {"a": {"0": 1}}}, {"orders": {"a": {"0": 2}, "b": {"0": 10}}}, 11),
        (3, 10, 7),
        (None, None, None),
        ({"logOffset": "x"}, {"logOffset": "y"}, None),
        ({"logOffset": 1}, {"logOffset": 2}, None),  # of files: how often there were new ones, not rows
        (True, False, None),
        ({}, {}, None),
    ],
)
def test_distance(start: Any, end: Any, apart: int | None) -> None:
    assert distance(start, end) == apart


def test_reports_and_epochs() -> None:
    status = QueryStatus(name="orders", sinks={"files": 0})
    first = report(0, offsets(0, 0), offsets(6, 4), offsets(60, 40), rows=30)
    status = after_progress(status, first)
    assert (status.epoch, status.lag, status.total, status.rows_per_second) == (0, 90, 100, 12.5)
    assert epoch_rows(first) == 10  # an epoch that read its rows three times has still read ten
    status = after_epoch(status, 0, EpochCounts(10, {"files": 8}, {"orders.positive": 2}, 2))
    status = after_epoch(status, 1, EpochCounts(1, {"files": 1}, {"orders.positive": 0}))
    assert (status.epochs, status.sinks, status.broken, status.dead_letters) == (
        2,
        {"files": 9},
        {"orders.positive": 2},
        2,
    )
    idle = after_progress(status, report(2, offsets(6, 4), offsets(6, 4), offsets(6, 4), rows=0))
    assert (idle.lag, idle.total, idle.rows_per_second) == (0, 100, 0.0)


def test_late_rows_of_all_epochs_and_operators() -> None:
    status = QueryStatus(name="totals")
    for late in ([2, 1], [], [4]):
        operators = [{"operatorName": "stateStoreSave", "numRowsDroppedByWatermark": rows} for rows in late]
        found = report(0, offsets(0, 0), offsets(6, 4), offsets(6, 4), rows=10)
        status = after_progress(status, {**found, "stateOperators": operators})
    assert status.late_rows == 7
    assert PipelineStatus(name="p", state=State.RUNNING, queries=[status, status]).late_rows == 14


def test_where_a_stream_began_is_neither_shown_nor_counted() -> None:
    end = first_end(offsets(100, 200), offsets(106, 204))
    first = report(0, None, end, offsets(160, 240), rows=30)
    status = after_progress(QueryStatus(name="orders"), first)
    assert status.sources == [SourceStatus("rocketmq", offsets(100, 200), offsets(106, 204), offsets(160, 240), 90)]
    assert (status.lag, status.total, epoch_rows(first)) == (90, 100, 10)
    second = report(1, end, offsets(108, 204), offsets(160, 240), rows=2)
    assert after_progress(status, second).sources[0].start == offsets(106, 204)
    assert epoch_rows(second) == 2


def test_a_source_that_nothing_has_come_for_since_its_first_batch() -> None:
    end = first_end(offsets(100, 200), offsets(106, 204))
    busy = {"description": "payments", "startOffset": {"p": {"a": {"0": 1}}}, "endOffset": {"p": {"a": {"0": 11}}}}
    idle = {**report(1, end, end, offsets(106, 204), rows=20), "numInputRows": 20}
    idle["sources"].append({**busy, "latestOffset": busy["endOffset"]})
    planned = after_planning(QueryStatus(name="both"), 1, idle["sources"])
    assert planned.current == CurrentEpoch(1, rows=10)
    assert (planned.lag, planned.total, epoch_rows(idle)) == (10, 10, 10)


def test_a_first_epoch_whose_start_nobody_knows() -> None:
    found = report(0, not_begun(), offsets(6, 4), offsets(6, 4), rows=5)
    assert epoch_rows(found) == 5


def test_an_epoch_that_has_begun() -> None:
    planned = report(0, offsets(0, 0), offsets(6, 4), offsets(60, 40), rows=0)["sources"]
    status = after_planning(QueryStatus(name="orders"), 3, planned)
    assert status.current == CurrentEpoch(3, rows=10)
    assert (status.total, status.lag, status.rows) == (100, 100, 0)
    assert after_epoch(status, 3, EpochCounts()).current is None
    assert after_planning(QueryStatus(name="orders"), 3, []).current == CurrentEpoch(3)


def test_a_report_of_an_epoch_that_had_nothing_to_do_is_no_sign_of_its_end() -> None:
    assert last_done({"batchId": 4, "durationMs": {"addBatch": 0, "triggerExecution": 5}}) == 4
    assert last_done({"batchId": 4, "durationMs": {"latestOffset": 5}}) == 3


@pytest.mark.parametrize(
    ("description", "streams", "name"),
    [
        ("org.apache.PythonMicroBatchStream@75053a2d", {"orders": "rocketmq"}, "orders (rocketmq)"),
        ("org.apache.PythonMicroBatchStream@75053a2d", {"a": "rocketmq", "b": "rocketmq"}, "rocketmq"),
        ("org.apache.PythonMicroBatchStream@75053a2d", {"a": "rocketmq", "b": "x"}, "rocketmq or x"),
        ("FileStreamSource[file:/in]", {"events": "parquet"}, "FileStreamSource[file:/in]"),
    ],
)
def test_source_name(description: str, streams: dict[str, str], name: str) -> None:
    assert source_name(description, streams) == name


def test_a_source_that_tells_nothing() -> None:
    found = report(0, None, {"logOffset": 0}, None, rows=5)
    assert epoch_rows(found) == 5
    status = after_progress(QueryStatus(name="files"), found)
    assert (status.lag, status.total) == (None, None)


def test_a_pipeline_is_the_sum_of_its_queries() -> None:
    queries = [
        QueryStatus(name="a", rows=3, lag=1, rows_per_second=2.0, dead_letters=1),
        QueryStatus(name="b", rows=4, lag=None, rows_per_second=3.0),
    ]
    status = PipelineStatus(name="p", state=State.RUNNING, queries=queries)
    assert (status.rows, status.lag, status.rows_per_second, status.dead_letters) == (7, 1, 5.0, 1)
    assert PipelineStatus(name="p", state=State.RUNNING).lag is None


def test_rows_that_two_queries_read_count_once() -> None:
    orders, prices = SourceStatus(description="orders (rocketmq)"), SourceStatus(description="prices (rocketmq)")
    queries = [
        QueryStatus(name="a", rows=3, lag=1, rows_per_second=2.0, sources=[orders]),
        QueryStatus(name="b", rows=2, lag=2, rows_per_second=1.0, sources=[orders]),
        QueryStatus(name="c", rows=10, lag=None, rows_per_second=5.0, sources=[prices, orders]),
    ]
    status = PipelineStatus(name="p", state=State.RUNNING, queries=queries)
    assert (status.rows, status.lag, status.rows_per_second) == (13, 2, 7.0)


def test_which_states_are_the_end() -> None:
    assert [state for state in State if state.is_over] == [State.STOPPED, State.FINISHED, State.FAILED]
