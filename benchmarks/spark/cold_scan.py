"""A broker's store read without the broker, beside Parquet files of the same rows."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.rows import Row
from benchmarks.runner import Say
from benchmarks.settings import Settings
from benchmarks.spark.cases import AMOUNTS
from benchmarks.spark.contenders import Contenders, Topic
from benchmarks.spark.jobs import Copy, Read
from benchmarks.spark.measuring import alternated, figures, rows_of

_STORE, _PARQUET = "rocketmq-store", "parquet"


def scans(contenders: Contenders, settings: Settings, say: Say, *, size: int) -> Iterator[Row]:
    """All columns of all rows; the store has this one topic."""
    case = f"cold scan, {size} B"
    topic = Topic.of(size, AMOUNTS[settings.quick].read[size])
    say(f"{case}: the store is filled")
    store = contenders.cold_store(topic)
    options = {_STORE: {"path": str(store)}, _PARQUET: {"path": str(store.with_name(f"{topic.name}.parquet"))}}
    say(f"{case}: Parquet files are made of it")
    path = options[_PARQUET]["path"]
    contenders.run("ours", Copy(format=_STORE, options=options[_STORE], to_format=_PARQUET, path=path))
    for source in (_STORE, _PARQUET):
        job = Read(format=source, options=options[source], action="count")
        found = contenders.run("ours", job).answer.rows
        if found != topic.rows:
            raise RuntimeError(f"{case}: {source} has {found} rows, expected {topic.rows}")

    def measure(source: str) -> dict[str, float]:
        return figures(topic.rows, contenders.run("ours", Read(format=source, options=options[source])))

    yield from rows_of(case, "Parquet", {}, alternated(settings, say, case, (_STORE, _PARQUET), measure))
