"""Pipelines that read again from a moment."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apogeemq.errors import ConfigError
from tests.spark.pipeline_runs import ORDERS, Runs, order
from tests.spark.worlds import World

pytestmark = pytest.mark.timeout(300)


def test_replay_reads_again_from_a_time(runs: Runs, world: World, messages: Callable[[str], list[Any]]) -> None:
    topic = world.topic("replayed")
    world.fill(topic, [order(number) for number in range(6)])
    spec = runs.spec(ORDERS, server=world.address, topic=topic, out=str(runs.folder))
    runs.run(spec)
    stored = [row.store_timestamp for row in messages(topic)]
    runs.run(spec, replay_from_ms=int(min(stored).timestamp() * 1000) - 1)
    found = [json.loads(row.body)["id"] for row in messages(f"{topic}-copy")]
    assert sorted(found) == sorted([*range(6), *range(6)])
    assert len({row.msg_id for row in messages(f"{topic}-copy")}) == 12
    runs.run(spec)
    assert len(messages(f"{topic}-copy")) == 12


def test_a_replay_that_is_refused_changes_nothing(runs: Runs, world: World) -> None:
    topic = world.topic("refused")
    world.fill(topic, [order(number) for number in range(6)])
    given = {"server": world.address, "topic": topic, "out": str(runs.folder)}
    spec = runs.spec(ORDERS, **given)
    status = runs.run(spec)
    kept = Path(status.checkpoint, "pipeline.json").read_bytes()
    broken = runs.spec(ORDERS.replace('id_columns = ["minute"', 'id_columns = ["nothing"'), **given)
    with pytest.raises(ConfigError, match="has no column nothing"):
        runs.run(broken, replay_from_ms=1)
    assert Path(status.checkpoint, "pipeline.json").read_bytes() == kept
    assert sum(query.rows for query in runs.run(spec).queries) == 0
