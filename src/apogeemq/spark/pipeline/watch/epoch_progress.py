"""How far an epoch is that has no report yet: what Spark knows of it while it is being done."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


def planned_sources(query: StreamingQuery) -> list[dict[str, Any]]:
    """As they will be in the report. Nothing where this Spark does not tell."""
    with suppress(Exception):  # no part of Spark's API, and only for a person's eyes
        execution = query._jsq.streamingQuery()
        start = _offsets(execution.getStartOffsetsOfLatestBatch())
        end, latest = _offsets(execution.availableOffsets()), _offsets(execution.latestOffsets())
        return [
            {"description": name, "startOffset": start.get(name), "endOffset": at, "latestOffset": latest.get(name)}
            for name, at in end.items()
        ]
    return []


def _offsets(progress: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    entries = progress.iterator()
    while entries.hasNext():
        entry = entries.next()
        if entry._2() is not None:
            found[entry._1().toString()] = json.loads(entry._2().json())
    return found


def task_counts(query: StreamingQuery) -> tuple[int, int]:
    """Of the jobs that run for a query at this moment: all their tasks, and those that are done."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None:
        return 0, 0
    tracker = context.statusTracker()
    active = set(tracker.getActiveJobsIds()) & set(tracker.getJobIdsForGroup(str(query.runId)))
    jobs = [job for number in active if (job := tracker.getJobInfo(number)) is not None]
    stages = [stage for job in jobs for number in job.stageIds if (stage := tracker.getStageInfo(number)) is not None]
    return sum(stage.numTasks for stage in stages), sum(stage.numCompletedTasks for stage in stages)
