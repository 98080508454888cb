"""Options a push consumer cannot work with."""

from __future__ import annotations

from typing import Any

import pytest

from apogeemq.client import Consumer, ConsumerOptions
from apogeemq.errors import ConfigError


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"pull_batch": 0}, "pull_batch=0: expected 1 to 1024"),
        ({"pull_batch": 1025}, "pull_batch=1025: expected 1 to 1024"),
        ({"max_retries": -2}, "max_retries=-2: expected -1 or more"),
        ({"max_cached_per_queue": 0}, "max_cached_per_queue=0: expected at least 1"),
        ({"max_cached_bytes_per_queue": -1}, "max_cached_bytes_per_queue=-1"),
        ({"max_span_per_queue": 0}, "max_span_per_queue=0"),
        ({"max_cached_per_topic": -1}, "max_cached_per_topic=-1: expected 0 or more"),
        ({"stop_grace_seconds": -0.5}, "stop_grace_seconds=-0.5: expected 0 or more"),
        ({"consume_timeout_seconds": 0.0}, "consume_timeout_seconds=0: expected more than 0"),
        ({"offset_persist_seconds": float("nan")}, "offset_persist_seconds=nan: expected more than 0"),
        ({"pull_timeout_seconds": 5.0}, "pull_timeout_seconds=5: expected more than the 15000 ms"),
    ],
)
def test_options_that_are_none(wrong: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Consumer("127.0.0.1:1", group="G", topic="T", options=ConsumerOptions(**wrong))


def test_the_usual_ones_and_the_least() -> None:
    Consumer("127.0.0.1:1", group="G", topic="T")
    least = ConsumerOptions(
        pull_batch=1, max_retries=0, max_cached_per_queue=1, stop_grace_seconds=0, suspend_ms=0, pull_timeout_seconds=0
    )
    Consumer("127.0.0.1:1", group="G", topic="T", options=least)
