"""Every ready pipeline is valid, says what it is for, and is described with all its parameters."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from apogeemq.spark.jobs.send_samples import sample_orders, sample_text
from apogeemq.spark.pipeline.reading import read_parameters, read_pipeline, ready_pipelines
from apogeemq.spark.sink.write_options import DEFAULT_MAX_MESSAGE_BYTES, read_write_options

NEEDED = {
    "archive": {"topics": "orders"},
    "archive-delta": {"topics": "orders"},
    "mirror": {"topics": "orders", "to_name_server": "127.0.0.1:9877"},
    "lag-audit": {"topics": "orders"},
}
PAGE = (Path(__file__).parents[4] / "docs" / "ready-pipelines.md").read_text()


def test_there_are_all_of_them() -> None:
    names = {"archive", "archive-delta", "lag-audit", "mirror", "orders", "route-health"}
    assert names <= set(ready_pipelines())


@pytest.mark.parametrize("name", ready_pipelines())
def test_it_is_valid(name: str) -> None:
    spec = read_pipeline(name, NEEDED.get(name, {}))
    assert spec.name == name
    assert spec.description


@pytest.mark.parametrize("name", ready_pipelines())
def test_it_is_described_with_all_its_parameters(name: str) -> None:
    assert f"`{name}`" in PAGE
    section = PAGE.split(f"\n## {name.removesuffix('-delta')}\n")[1].split("\n## ")[0]
    named = set(re.findall(r"`([^`\n]+)`", section))
    assert set(read_parameters(name)) - named == set()


def test_delta_need_not_be_downloaded() -> None:
    assert len(read_pipeline("archive-delta", {"topics": "orders"}).packages) == 1
    assert read_pipeline("archive-delta", {"topics": "orders", "packages": ""}).packages == ()


def test_a_mirror_takes_longer_messages_when_told_to() -> None:
    for given, expected in (({}, DEFAULT_MAX_MESSAGE_BYTES), ({"max_message_bytes": "8388608"}, 8 << 20)):
        sink = read_pipeline("mirror", {**NEEDED["mirror"], **given}).sinks["other_cluster"]
        assert read_write_options(sink.options).max_message_bytes == expected


def test_the_sample_file_has_the_orders_that_are_sent() -> None:
    assert sample_text("orders.jsonl").encode().splitlines() == [order.body for order in sample_orders()]
