"""Reading, writing and small batches of either side, and how our side grows."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple

from benchmarks.rows import Row, Target
from benchmarks.runner import Say
from benchmarks.settings import Settings
from benchmarks.spark.contenders import Contenders, Topic
from benchmarks.spark.jobs import Action, Job
from benchmarks.spark.measuring import BATCH_TIME, EFFICIENCY, RATE, alternated, figures, rows_of
from benchmarks.spark.sides import SIDES, Side

SIZES = (200, 1024)
Mode = Literal["batch", "stream"]

READ_TARGETS = {RATE: Target(at_least=1.0), EFFICIENCY: Target(at_least=0.7)}
WRITE_TARGETS = {RATE: Target(at_least=1.0)}
SMALL_BATCH_TARGETS = {BATCH_TIME: Target(at_most=2.0)}
FLAT = {EFFICIENCY: Target(at_least=0.8)}

_WARM_UPS = 2
# The columns of ours that Kafka's source has, too.
_SAME_COLUMNS = "topic,queue_id,queue_offset,keys,body,store_timestamp"
_SMALL_BATCH = 800
_SMALL_BATCHES = 40
_SMALL_BATCH_WARM_UP = 8
_MANY_QUEUES = 64


class Amounts(NamedTuple):
    """Rows to read and to write, by size of their bodies; the last two for growth."""

    read: Mapping[int, int]
    written: Mapping[int, int]
    some: int
    many: int


AMOUNTS = {
    False: Amounts({200: 2_000_000, 1024: 1_000_000}, {200: 500_000, 1024: 250_000}, 1_000_000, 20_000_000),
    True: Amounts({200: 500_000, 1024: 250_000}, {200: 100_000, 1024: 50_000}, 250_000, 5_000_000),
}


def reads(
    contenders: Contenders,
    settings: Settings,
    say: Say,
    *,
    size: int,
    mode: Mode,
    action: Action,
    same_columns: bool = False,
    usual_pulls: bool = False,
) -> Iterator[Row]:
    """All messages of a topic, by both sides. Each has counted them before."""
    topic = Topic.of(size, AMOUNTS[settings.quick].read[size])
    case = f"{mode} read, {size} B, {action}"
    case += ", Kafka's columns" * same_columns + ", 32 a pull" * usual_pulls
    for side in SIDES:
        say(f"{case}: {side} is filled")
        contenders.fill(side, topic)
        _check_count(contenders, side, topic)

    def job(side: Side) -> Job:
        make = contenders.read if mode == "batch" else contenders.stream
        options = {"columns": _SAME_COLUMNS} if same_columns and side == "ours" else {}
        return make(side, topic, action, **options)

    targets = {} if same_columns or usual_pulls else READ_TARGETS
    if usual_pulls:
        with contenders.usual_pulls():
            yield from _compared(contenders, settings, say, case, topic.rows, job, targets)
    else:
        yield from _compared(contenders, settings, say, case, topic.rows, job, targets)


def writes(contenders: Contenders, settings: Settings, say: Say, *, size: int) -> Iterator[Row]:
    """Rows made by Spark into a topic of eight queues; afterwards every one must be there."""
    case, rows = f"batch write, {size} B", AMOUNTS[settings.quick].written[size]
    topic = Topic(f"bench-written-{size}", size, rows * (settings.rounds + _WARM_UPS))
    for side in SIDES:
        contenders.create(side, topic)
    yield from _compared(
        contenders, settings, say, case, rows, lambda side: contenders.write(side, topic, rows), WRITE_TARGETS
    )
    for side in SIDES:
        _check_count(contenders, side, topic)


def small_batches(contenders: Contenders, settings: Settings, say: Say) -> Iterator[Row]:
    """The same stream in many batches of a few hundred rows: what a batch costs at least."""
    case = f"stream of batches of {_SMALL_BATCH} rows"
    topic = Topic.of(200, _SMALL_BATCH * (_SMALL_BATCHES + _SMALL_BATCH_WARM_UP))
    for side in SIDES:
        contenders.fill(side, topic)

    def measure(side: Side) -> dict[str, float]:
        job = contenders.stream(side, topic, "noop", maxOffsetsPerTrigger=str(_SMALL_BATCH))
        times = contenders.run(side, job).answer.batch_ms
        return {BATCH_TIME: statistics.median(times[_SMALL_BATCH_WARM_UP:])}

    yield from rows_of(case, "Kafka's source", SMALL_BATCH_TARGETS, alternated(settings, say, case, SIDES, measure))


def more_queues(contenders: Contenders, settings: Settings, say: Say) -> Iterator[Row]:
    """The same messages in one queue and in many."""
    rows = AMOUNTS[settings.quick].some
    topics = {"large": Topic.of(200, rows, _MANY_QUEUES), "small": Topic.of(200, rows, 1)}
    case = f"batch read, {_MANY_QUEUES} queues"
    yield from _grown(contenders, settings, say, case, "1 queue", topics)


def more_messages(contenders: Contenders, settings: Settings, say: Say) -> Iterator[Row]:
    """Many more messages in the same number of queues."""
    amounts = AMOUNTS[settings.quick]
    topics = {"large": Topic.of(200, amounts.many), "small": Topic.of(200, amounts.some)}
    case = f"batch read, {topics['large'].rows:,} messages"
    yield from _grown(contenders, settings, say, case, f"{topics['small'].rows:,}", topics)


def _grown(
    contenders: Contenders, settings: Settings, say: Say, case: str, other: str, topics: Mapping[str, Topic]
) -> Iterator[Row]:
    for topic in topics.values():
        say(f"{case}: {topic.rows:,} messages are sent")
        contenders.fill("ours", topic)
        _check_count(contenders, "ours", topic)

    def measure(name: str) -> dict[str, float]:
        topic = topics[name]
        return figures(topic.rows, contenders.run("ours", contenders.read("ours", topic, "noop")))

    yield from rows_of(case, other, FLAT, alternated(settings, say, case, ("large", "small"), measure))


def _compared(
    contenders: Contenders,
    settings: Settings,
    say: Say,
    case: str,
    rows: int,
    job: Callable[[Side], Job],
    targets: Mapping[str, Target],
) -> Iterator[Row]:
    def measure(side: Side) -> dict[str, float]:
        result = contenders.run(side, job(side))
        if result.answer.rows not in (None, rows):
            raise RuntimeError(f"{case}: {side}: {result.answer.rows} rows, expected {rows}")
        return figures(rows, result)

    for number in range(_WARM_UPS):
        say(f"{case}: warming up, {number + 1} of {_WARM_UPS}")
        for side in SIDES:
            measure(side)
    yield from rows_of(case, "Kafka's source", targets, alternated(settings, say, case, SIDES, measure))


def _check_count(contenders: Contenders, side: Side, topic: Topic) -> None:
    """Refuse to measure a side that loses messages, or invents some."""
    found = contenders.run(side, contenders.read(side, topic, "count")).answer.rows
    if found != topic.rows:
        raise RuntimeError(f"{side}: {topic.name} has {found} rows, expected {topic.rows}")
