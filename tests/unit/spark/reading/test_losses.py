"""Messages that a task does not get, and whether they are lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from apogeemq.errors import DataLost
from apogeemq.model.topics import TopicConfig
from apogeemq.protocol.codes import RequestCode
from apogeemq.protocol.command import Command
from apogeemq.spark.cluster import cluster_of
from apogeemq.spark.connection import Connection
from apogeemq.spark.reading.losses import Losses
from apogeemq.spark.source.data_loss import LossRule
from apogeemq.spark.source.ranges import OffsetRange
from apogeemq.transport.channel import Channel
from tests.unit.client.cluster import Cluster, cluster
from tests.unit.event_loop import in_loop

MISSING = OffsetRange("T", "broker-a", 0, 20, 25)


async def report(where: Cluster, *missing: OffsetRange, loss: DataLost | None = None) -> None:
    """Where a loss is an error."""
    connection = Connection(name_server=where.address, retries=0, retry_delay_ms=1)

    def do() -> None:
        losses = Losses(cluster_of(connection, "G"), LossRule(True))
        for one in missing:
            losses.report_missing(one)
        if loss is not None:
            losses.report(loss)

    await asyncio.to_thread(do)


async def make_topic(where: Cluster, **attributes: str) -> None:
    await where.make_topic("T", 1)
    kept = {name.replace("_", "."): value for name, value in attributes.items()}
    where.state.topics.put(TopicConfig(topic_name="T", attributes=kept), where.state.now_ms())


def questions(where: Cluster) -> list[Command]:
    """About the settings of a topic, as they come."""
    handlers = where.brokers["broker-a"].server.dispatcher.handlers
    answer, found = handlers[RequestCode.GET_TOPIC_CONFIG], list[Command]()

    def noted(channel: Channel, command: Command) -> Any:
        found.append(command)
        return answer(channel, command)

    handlers[RequestCode.GET_TOPIC_CONFIG] = noted
    return found


@in_loop
async def test_what_a_broker_passes_over_is_lost(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        for policy in ({}, {"cleanup_policy": "DELETE"}):
            await make_topic(it, **policy)
            with pytest.raises(DataLost, match=r"messages 20 to 24 .* the broker passed over them"):
                await report(it, MISSING)


@in_loop
async def test_but_not_where_it_compacts_the_topic_which_is_asked_once(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await make_topic(it, cleanup_policy="COMPACTION")
        asked = questions(it)
        await report(it, MISSING, MISSING._replace(start=30, end=31), MISSING._replace(queue_id=1))
        assert len(asked) == 1


@in_loop
async def test_what_else_is_lost_of_a_compacted_topic_is_lost(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await make_topic(it, cleanup_policy="COMPACTION")
        asked = questions(it)
        with pytest.raises(DataLost, match="expired"):
            await report(it, loss=DataLost(*MISSING, "they have expired"))
        assert not asked


@in_loop
async def test_a_broker_that_does_not_tell(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is too old, or the user may not ask."""
    async with cluster(tmp_path) as it:
        await make_topic(it, cleanup_policy="COMPACTION")
        del it.brokers["broker-a"].server.dispatcher.handlers[RequestCode.GET_TOPIC_CONFIG]
        with pytest.raises(DataLost, match="passed over"):
            await report(it, MISSING)
        assert "whether topic T is compacted is not known" in caplog.text
