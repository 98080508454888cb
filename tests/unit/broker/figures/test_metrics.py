"""The figures Prometheus is given."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from apogeemq.broker.figures import metrics
from apogeemq.protocol.codes import RequestCode
from apogeemq.runtime.metrics import render
from tests.unit.broker.handlers.asking import commit, create_group, create_topic, pull_fields, send
from tests.unit.broker.handlers.members import Serving, consumer, serving, subscription
from tests.unit.event_loop import in_loop

Figures = dict[tuple[str, frozenset[tuple[str, str]]], float]


def figures(broker: Serving) -> Figures:
    _, text = render(metrics.families(broker.broker))
    return {
        (sample.name.removeprefix("apogee_broker_"), frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def figure(found: Figures, name: str, /, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


@in_loop
async def test_traffic_store_and_clients_are_shown(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await create_topic(client)
        await create_group(client)
        for _ in range(3):
            await send(client)
        await client.ok(RequestCode.PULL_MESSAGE, **pull_fields())
        await commit(client, 1)
        await broker.member("c1").heartbeat(consumer("G", subscription("T")), producers=("P",))
        found = figures(broker)
        log = broker.state.store.log
        assert figure(found, "messages_in_total", topic="T") == 3
        assert figure(found, "bytes_in_total", topic="T") == log.max_offset
        assert figure(found, "messages_out_total", topic="T", group="G") == 3
        assert figure(found, "bytes_out_total", topic="T", group="G") == log.max_offset
        assert figure(found, "consumer_lag", topic="T", group="G") == 2
        assert figure(found, "commit_log_max_offset") == log.max_offset
        assert figure(found, "writable") == 1
        assert figure(found, "clients") == figure(found, "consumer_groups") == figure(found, "producer_groups") == 1
        assert figure(found, "connections") == 2
        assert figure(found, "requests_total", code="310", name="SEND_MESSAGE_V2") == 3
        assert figure(found, "topics") == len(broker.state.topics.topics)
        for name in ("put_seconds", "get_seconds", "flush_seconds"):
            assert figure(found, f"{name}_bucket", le="+Inf") == figure(found, f"{name}_count")


@in_loop
async def test_topics_beyond_the_limit_share_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MAX_LABEL_SETS", 2)
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        for number in range(5):
            await send(client, f"T{number}")
        found = figures(broker)
        assert figure(found, "messages_in_total", topic="T1") == 1
        assert figure(found, "messages_in_total", topic=metrics.OTHERS) == 3
        assert ("messages_in_total", frozenset({("topic", "T2")})) not in found


@in_loop
async def test_lag_counts_what_is_still_there(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await create_topic(client)
        await create_group(client)
        await send(client)
        await send(client, queue=1)
        await commit(client, 9)  # beyond the end: no lag, not less than none
        assert figure(figures(broker), "consumer_lag", topic="T", group="G") == 1
