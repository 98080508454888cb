"""The reader of a stream as Spark calls it, without Spark: brokers are real, and offsets travel as text."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from apogeemq.errors import DataLost, NoRoute
from apogeemq.protocol.codes import RequestCode
from apogeemq.spark.first_batch import beginning_of, without_beginning
from apogeemq.spark.source.read_options import ReadOptions
from apogeemq.spark.source.schema import arrow_schema, spark_schema
from apogeemq.spark.source.stream_reader import StreamReader
from apogeemq.transport.broker_registration import BrokerIdentity
from tests.unit.client.cluster import Cluster, cluster, eventually
from tests.unit.client.consuming.programs import fill
from tests.unit.event_loop import in_loop
from tests.unit.name_servers import connections, name_server, register, topics

HASTY = {"subscribe": "T", "retries": "2", "retryDelayMs": "1"}
STARTS = [{"startingOffsets": "latest"}, {"startingOffsets": "latest", "failOnDataLoss": "false"}]

Offset = dict[str, Any]
Tell: TypeAlias = Callable[[str, int, str], Awaitable[None]]


class Driver:
    """The life of one: another one knows nothing but the checkpoint."""

    def __init__(self, it: Cluster, **given: str) -> None:
        options = ReadOptions.read({"nameServer": it.address, **HASTY, **given})
        self.reader = StreamReader(options, arrow_schema(spark_schema(options.columns)))

    async def initial(self) -> Offset:
        return kept(await asyncio.to_thread(self.reader.initialOffset))

    async def latest(self, start: Offset) -> Offset:
        limit = self.reader.getDefaultReadLimit()
        return kept(await asyncio.to_thread(self.reader.latestOffset, start, limit))

    async def bodies(self, start: Offset, end: Offset) -> list[bytes]:
        return await asyncio.to_thread(self._bodies, start, end)

    def _bodies(self, start: Offset, end: Offset) -> list[bytes]:
        batches = (batch for one in self.reader.partitions(start, end) for batch in self.reader.read(one))
        return sorted((body for batch in batches for body in batch.column("body").to_pylist()), key=int)


def kept(offset: Offset) -> Offset:
    found: Offset = json.loads(json.dumps(offset))
    return found


def numbers(start: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]


@pytest.mark.parametrize("given", STARTS)
@in_loop
async def test_a_first_batch_that_is_planned_again_begins_where_it_began(tmp_path: Path, given: dict[str, str]) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 10, queues=2)
        driver = Driver(it, **given)
        end = await driver.latest(await driver.initial())
        assert await driver.bodies(await driver.initial(), end) == []
        await fill(it, "T", 40, queues=2, first=10)
        again = Driver(it, **given)
        assert await again.bodies(await again.initial(), end) == []
        after = await again.latest(end)
        assert await again.bodies(end, after) == numbers(10, 50)


@in_loop
async def test_what_has_expired_before_the_first_batch_is_planned_again_is_lost(tmp_path: Path) -> None:
    async with cluster(tmp_path, mappedFileSizeCommitLog="4096", fileReservedTime="0") as it:
        await fill(it, "T", 200, queues=1)
        driver = Driver(it, startingOffsets="earliest")
        end = await driver.latest(await driver.initial())
        assert await driver.bodies(await driver.initial(), end) == numbers(0, 200)
        async with connections() as pool:
            while not it.state.store.queues["T", 0].min_offset:
                await pool.request(it.broker_address, RequestCode.DELETE_EXPIRED_COMMITLOG)
        again = Driver(it, startingOffsets="earliest")
        with pytest.raises(DataLost, match=r"messages 0 to \d+ of topic T, .* are lost: they have expired"):
            await again.bodies(await again.initial(), end)
        lenient = Driver(it, startingOffsets="earliest", failOnDataLoss="false")
        left = await lenient.bodies(await lenient.initial(), end)
        assert left == numbers(200 - len(left), 200)
        assert 0 < len(left) < 200


@in_loop
async def test_only_the_first_end_says_where_the_stream_began(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 10, queues=1)
        driver = Driver(it, startingOffsets="earliest", maxOffsetsPerTrigger="4")
        first = await driver.latest(await driver.initial())
        assert beginning_of(first) == {"T": {"broker-a": {"0": 0}}}
        assert without_beginning(first) == {"T": {"broker-a": {"0": 4}}}
        assert driver.reader.reportLatestOffset() == {"T": {"broker-a": {"0": 10}}}
        second = await driver.latest(first)
        assert second == {"T": {"broker-a": {"0": 8}}}
        assert await driver.bodies(first, second) == numbers(4, 8)


@in_loop
async def test_nothing_new_is_no_batch_after_the_first(tmp_path: Path) -> None:
    """Also where only the beginning would have to be left out: Spark takes another text for new messages."""
    async with cluster(tmp_path) as it:
        await fill(it, "T", 10, queues=2)
        driver = Driver(it)
        first = await driver.latest(await driver.initial())
        assert json.dumps(await driver.latest(first)) == json.dumps(first)
        assert json.dumps(await Driver(it).latest(first)) == json.dumps(first)


@in_loop
async def test_what_there_was_is_read_and_no_more(tmp_path: Path) -> None:
    """Trigger.AvailableNow, whose first batch is one of several."""
    async with cluster(tmp_path) as it:
        await fill(it, "T", 10, queues=1)
        driver = Driver(it, startingOffsets="earliest", maxOffsetsPerTrigger="6")
        await asyncio.to_thread(driver.reader.prepareForTriggerAvailableNow)
        await fill(it, "T", 5, queues=1, first=10)
        first = await driver.latest(await driver.initial())
        last = await driver.latest(first)
        assert [without_beginning(end)["T"]["broker-a"]["0"] for end in (first, last)] == [6, 10]
        assert await driver.latest(last) == last


@in_loop
async def test_a_pattern_without_topics_begins_with_the_first_that_comes(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        options = {"subscribePattern": "T.*", "subscribe": ""}
        driver = Driver(it, **options)
        first = await driver.latest(await driver.initial())
        assert await driver.bodies(await driver.initial(), first) == []
        assert await driver.latest(first) == first
        await fill(it, "T", 10, queues=1)
        again = Driver(it, **options)
        noted = await again.latest(first)
        assert noted == {"T": {"broker-a": {"0": 0}}}
        assert await again.bodies(noted, await again.latest(noted)) == numbers(0, 10)


@in_loop
async def test_a_checkpoint_that_does_not_say_where_it_began(tmp_path: Path) -> None:
    """Of an older version: what was asked for is looked up again."""
    async with cluster(tmp_path) as it:
        await fill(it, "T", 10, queues=1)
        end = {"T": {"broker-a": {"0": 7}}}
        driver = Driver(it, startingOffsets="earliest")
        assert await driver.bodies(await driver.initial(), end) == numbers(0, 7)
        assert await driver.bodies(end, await driver.latest(end)) == numbers(7, 10)


@in_loop
async def test_brokers_are_told_of_positions_only(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 10, queues=1)
        driver = Driver(it, startingOffsets="earliest", groupId="G", commitOffsets="true")
        end = await driver.latest(await driver.initial())
        await driver.bodies(await driver.initial(), end)  # brokers know the group from then on
        await asyncio.to_thread(driver.reader.commit, end)
        assert it.committed("G", "T") == {0: 10}
        everything = await asyncio.to_thread(driver.reader.latestOffset, end, ReadAllAvailable())
        assert everything == end


@in_loop
async def test_a_batch_that_waits_for_enough_counts_what_new_queues_hold(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 4, queues=1)
        given = {"subscribePattern": "[TU]", "subscribe": "", "startingOffsets": "earliest", "maxTriggerDelay": "1h"}
        driver = Driver(it, minOffsetsPerTrigger="10", **given)
        first = await driver.latest(await driver.initial())
        await fill(it, "U", 9, queues=1)
        while "U" not in (driver.reader.reportLatestOffset() or {}):
            assert await driver.latest(first) == first, "there are nine"
        await fill(it, "U", 1, queues=1, first=9)
        noted = await driver.latest(first)
        assert noted == {"T": {"broker-a": {"0": 4}}, "U": {"broker-a": {"0": 0}}}
        assert await driver.bodies(first, noted) == []
        assert await driver.bodies(noted, await driver.latest(noted)) == numbers(0, 10)


# -- planned batches and routes ------------------------------------------------------------------------------

PLANNED = {"T": {"broker-a": {"0": 0}}}, {"T": {"broker-a": {"0": 10}}}


@asynccontextmanager
async def other_routes(it: Cluster, folder: Path, **given: str) -> AsyncIterator[tuple[Driver, Tell]]:
    """A driver that asks another name server than the broker does. Who tells it of a broker says with which id."""
    async with name_server(folder / "others") as (_, address), connections() as pool:

        async def tell(name: str, broker_id: int, topic: str) -> None:
            who = BrokerIdentity("c", name, broker_id, it.broker_address, it.broker_address)
            await register(pool, address, who, topics(topic, f"{topic}-2", queues=1))

        await tell("broker-b", 0, "U")
        yield Driver(it, nameServer=address, failOnDataLoss="false", **given), tell


@in_loop
async def test_a_planned_batch_waits_for_a_name_server_that_does_not_know_its_topic_yet(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    patient = {"retries": "1000", "retryDelayMs": "5"}
    async with cluster(tmp_path) as it, other_routes(it, tmp_path, **patient) as (driver, tell):
        await fill(it, "T", 10, queues=1)
        planning = asyncio.create_task(driver.bodies(*PLANNED))
        await eventually(lambda: "does not exist" in caplog.text and "trying again" in caplog.text)
        await tell("broker-a", 0, "T")
        assert await planning == numbers(0, 10)


@in_loop
async def test_a_planned_batch_does_not_go_on_where_slaves_are_left(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it, other_routes(it, tmp_path) as (driver, tell):
        await fill(it, "T", 10, queues=1)
        await tell("broker-a", 1, "T")
        with pytest.raises(NoRoute, match="only slaves of the broker broker-a are registered"):
            await driver.bodies(*PLANNED)


@in_loop
async def test_a_planned_batch_goes_on_without_a_topic_that_stays_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster(tmp_path) as it, other_routes(it, tmp_path) as (driver, _):
        await fill(it, "T", 10, queues=1)
        assert await driver.bodies(*PLANNED) == []
        assert caplog.text.count("trying again") == int(HASTY["retries"])
        assert "messages 0 to 9 of topic T, broker broker-a, queue 0 are lost" in caplog.text
