"""Reading, writing and small batches of either side, and how our side grows."""

from __future__ import annotations

import contextlib
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from benchmarks import free_memory
from benchmarks.rows import Row, Target
from benchmarks.runner import Say
from benchmarks.settings import Settings
from benchmarks.spark.contenders import Contenders, Topic
from benchmarks.spark.jobs import Action
from benchmarks.spark.measuring import (
    BATCH_TIME,
    EFFICIENCY,
    QUERY_CPU,
    QUERY_TIME,
    RATE,
    alternated,
    figures,
    nothing,
    rows_of,
)
from benchmarks.spark.sides import SIDES, Side
from benchmarks.under_load import warm_up

SIZES = (200, 1024)

READ_TARGETS = {RATE: Target(at_least=1.0), EFFICIENCY: Target(at_least=0.7)}
WRITE_TARGETS = {RATE: Target(at_least=1.0)}
SMALL_BATCH_TARGETS = {BATCH_TIME: Target(at_most=2.0)}
FLAT = {EFFICIENCY: Target(at_least=0.8)}

# The columns of ours that Kafka's source has, too.
_SAME_COLUMNS = "topic,queue_id,queue_offset,keys,body,store_timestamp"
_SMALL_BATCH = 800
_SMALL_BATCHES = 40
_SMALL_BATCH_WARM_UP = 8
_MANY_QUEUES = 64


class Amounts(NamedTuple):
    """Rows to read, at once and as a stream, and to write, by size of their bodies; the last two for growth."""

    read: Mapping[int, int]
    streamed: Mapping[int, int]
    written: Mapping[int, int]
    some: int
    many: int


AMOUNTS = {
    False: Amounts(
        read={200: 2_000_000, 1024: 1_000_000},
        streamed={200: 4_000_000, 1024: 2_000_000},
        written={200: 1_000_000, 1024: 500_000},
        some=1_000_000,
        many=20_000_000,
    ),
    True: Amounts(
        read={200: 500_000, 1024: 250_000},
        streamed={200: 500_000, 1024: 250_000},
        written={200: 100_000, 1024: 50_000},
        some=250_000,
        many=5_000_000,
    ),
}


def batch_reads(
    contenders: Contenders,
    settings: Settings,
    say: Say,
    *,
    size: int,
    action: Action,
    same_columns: bool = False,
    usual_pulls: bool = False,
) -> Iterator[Row]:
    """All messages of a topic, by both sides."""
    topic = _filled(contenders, say, size, AMOUNTS[settings.quick].read[size])
    case = f"batch read, {size} B, {action}" + ", Kafka's columns" * same_columns + ", 32 a pull" * usual_pulls

    def measure(side: Side) -> dict[str, float]:
        options = {"columns": _SAME_COLUMNS} if same_columns and side == "ours" else {}
        return figures(topic.rows, contenders.run(side, contenders.read(side, topic, action, **options)))

    is_variant = same_columns or usual_pulls
    with contenders.usual_pulls() if usual_pulls else contextlib.nullcontext():
        yield from _compared(settings, say, case, measure, {} if is_variant else READ_TARGETS)


def stream_reads(
    contenders: Contenders, settings: Settings, say: Say, *, size: int, action: Action, is_varied: bool = False
) -> Iterator[Row]:
    """More of the same as a stream. What it takes to start and end a query is measured with a few rows, too."""
    topic = _filled(contenders, say, size, AMOUNTS[settings.quick].streamed[size], is_varied=is_varied)
    few = Topic.of(size, 1)
    case = f"stream read, {size} B, {action}" + ", sizes differ" * is_varied
    for side in SIDES:
        contenders.fill(side, few)

    def measure(side: Side) -> dict[str, float]:
        empty = contenders.run(side, contenders.stream(side, few, action))
        full = contenders.run(side, contenders.stream(side, topic, action))
        return {
            RATE: topic.rows / sum(full.answer.batch_ms) * 1000,
            EFFICIENCY: topic.rows / full.cpu.all,
            QUERY_TIME: empty.answer.seconds,
            QUERY_CPU: empty.cpu.all,
        }

    yield from _compared(settings, say, case, measure, {} if is_varied else READ_TARGETS)


def _filled(contenders: Contenders, say: Say, size: int, rows: int, *, is_varied: bool = False) -> Topic:
    topic = Topic.of(size, rows, is_varied=is_varied)
    for side in SIDES:
        say(f"{topic.rows:,} messages of {size} B: {side}")
        contenders.fill(side, topic)
    return topic


def writes(contenders: Contenders, settings: Settings, say: Say, *, size: int) -> Iterator[Row]:
    """Rows made by Spark into a topic of eight queues; afterwards every one must be there."""
    case, rows = f"batch write, {size} B", AMOUNTS[settings.quick].written[size]
    topic, written = Topic(f"bench-written-{size}", size, 0), Counter[Side]()
    for side in SIDES:
        contenders.create(side, topic)

    def measure(side: Side) -> dict[str, float]:
        written[side] += rows
        return figures(rows, contenders.run(side, contenders.write(side, topic, rows)))

    yield from _compared(settings, say, case, measure, WRITE_TARGETS, prepare=free_memory.fetch)
    for side in SIDES:
        contenders.check_count(side, topic._replace(rows=written[side]))


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

    def measure(name: str) -> dict[str, float]:
        topic = topics[name]
        return figures(topic.rows, contenders.run("ours", contenders.read("ours", topic, "noop")))

    names = "large", "small"
    for name in names:
        say(f"{case}: warming up, {name}")
        warm_up(partial(measure, name), settings, EFFICIENCY)
    yield from rows_of(case, other, FLAT, alternated(settings, say, case, names, measure))


def _compared(
    settings: Settings,
    say: Say,
    case: str,
    measure: Callable[[Side], dict[str, float]],
    targets: Mapping[str, Target],
    *,
    prepare: Callable[[], None] = nothing,
) -> Iterator[Row]:
    for side in SIDES:
        say(f"{case}: warming up {side}")
        prepare()
        warm_up(partial(measure, side), settings, EFFICIENCY)
    found = alternated(settings, say, case, SIDES, measure, prepare=prepare)
    yield from rows_of(case, "Kafka's source", targets, found)
