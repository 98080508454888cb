"""Who may write a partition of an epoch, and what a task finds that others have written, with brokers of ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from apogeemq.client import MessageQueue, Producer
from apogeemq.errors import ApogeeError, DataLost, RequestTimedOut, SendFailed, Superseded
from apogeemq.spark.cluster import Cluster as SparkCluster
from apogeemq.spark.cluster import may_pass
from apogeemq.spark.sink import epoch_task
from apogeemq.spark.sink import read_back as reading_back
from apogeemq.spark.sink.epoch_task import EpochPlan, fence_of
from apogeemq.spark.sink.fence import LEASE_SECONDS, settle_seconds
from apogeemq.spark.sink.read_back import own_ids, read_back
from apogeemq.spark.sink.write_options import WriteOptions
from tests.unit.client.cluster import Cluster, cluster
from tests.unit.event_loop import in_loop
from tests.unit.spark.sink.writing import SCOPE, begun, guard, ids_of, options_for, request, spark_cluster

TWO = ("broker-a", "broker-b")


class Running(msgspec.Struct):
    it: Cluster
    cluster: SparkCluster
    producer: Producer
    options: WriteOptions
    plan: EpochPlan

    async def store(self, *bodies: bytes, queue: int = 0) -> MessageQueue:
        chosen = list(self.plan.entry.queues())[queue]
        await self.producer.send_encoded(chosen, request(*bodies).body)
        return chosen

    def forget_numbers(self, broker: str = "broker-a") -> None:
        """As a broker does that is killed before it has written them down."""
        offsets = self.it.brokers[broker].state.offsets
        for queues in offsets.table.values():
            for number in [number for number in queues if number >= 1 << 24]:
                del queues[number]


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Running]:
    async with cluster(folder, *TWO) as it:
        for name in TWO:
            await it.make_topic("T", broker=name)
        options = options_for(it)
        async with spark_cluster(it) as asking, Producer(it.address, group="P") as producer:
            yield Running(it, asking, producer, options, await begun(asking, options))


@pytest.fixture(autouse=True)
def every_send_is_preceded_by_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_task, "LEASE_SECONDS", 0.0)


@in_loop
async def test_the_first_task_of_a_partition_may_write_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as now:
        task = guard(now.plan, now.cluster)
        assert await task.claim() == set()
        assert task.is_first
        queues = await task.queues("T")
        assert {queue.broker_name for queue in queues} == set(TWO)
        for queue in queues:
            await task.let_pass(queue)


@in_loop
async def test_a_second_task_finds_what_the_first_has_written_and_keeps_it_out(tmp_path: Path) -> None:
    async with running(tmp_path) as now:
        first, second = guard(now.plan, now.cluster), guard(now.plan, now.cluster)
        await first.claim()
        await now.store(b"one", b"two", queue=0)
        await now.store(b"three", queue=5)
        assert await second.claim() == ids_of(b"one", b"two", b"three")
        assert not second.is_first
        queue = (await second.queues("T"))[0]
        await second.let_pass(queue)
        with pytest.raises(Superseded, match="partition 0 has another writer"):
            await first.let_pass(queue)


@in_loop
async def test_partitions_do_not_disturb_each_other(tmp_path: Path) -> None:
    async with running(tmp_path) as now:
        tasks = [guard(now.plan, now.cluster, partition) for partition in range(5)]
        await asyncio.gather(*(task.claim() for task in tasks))
        assert all(task.is_first for task in tasks)
        for task in tasks:
            await task.let_pass((await task.queues("T"))[0])


@in_loop
async def test_of_tasks_that_claim_at_once_at_most_one_is_first(tmp_path: Path) -> None:
    async with running(tmp_path) as now:
        for partition in range(10):
            tasks = [guard(now.plan, now.cluster, partition) for _ in range(4)]
            ends = await asyncio.gather(*(task.claim() for task in tasks), return_exceptions=True)
            assert sum(task.is_first for task in tasks) <= 1
            assert all(isinstance(end, set | Superseded) for end in ends)
            queue = (await tasks[0].queues("T"))[0]
            passing = []
            for task in tasks:
                try:
                    await task.let_pass(queue)
                    passing.append(task)
                except Superseded:
                    pass
            assert len(passing) == 1


@in_loop
async def test_a_later_attempt_is_never_the_first(tmp_path: Path) -> None:
    async with running(tmp_path) as now:
        task = guard(now.plan, now.cluster, attempt=1)
        await now.store(b"one")
        assert await task.claim() == ids_of(b"one")


@in_loop
async def test_a_new_run_keeps_all_tasks_of_the_one_before_out(tmp_path: Path) -> None:
    async with running(tmp_path) as now:
        old = guard(now.plan, now.cluster)
        await old.claim()
        plan = await begun(now.cluster, now.options, run=2)
        for queue in await old.queues("T"):
            with pytest.raises(Superseded, match=r"run 1 has been superseded: broker-. has run 2"):
                await old.let_pass(queue)
        task = guard(plan, now.cluster)
        await task.claim()
        assert task.is_first  # of its run: what the run before has written, the driver knows


@in_loop
async def test_a_question_is_good_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_task, "LEASE_SECONDS", 3600.0)
    async with running(tmp_path) as now:
        task = guard(now.plan, now.cluster)
        await task.claim()
        queue = (await task.queues("T"))[0]
        await task.let_pass(queue)
        await begun(now.cluster, now.options, run=2)
        await task.let_pass(queue)  # which is why whoever takes over waits longer than that


def test_whoever_takes_over_waits_for_longer_than_a_writer_can_be_late() -> None:
    for timeout_ms in (1, 3_000, 60_000):
        assert settle_seconds(timeout_ms) >= LEASE_SECONDS + 2 * timeout_ms / 1000
        assert settle_seconds(timeout_ms) > 5  # brokers write their numbers down every 5 s


@in_loop
async def test_a_writer_whose_number_a_broker_has_forgotten_sends_no_more(tmp_path: Path) -> None:
    async with running(tmp_path) as now:
        task = guard(now.plan, now.cluster)
        await task.claim()
        queues = await task.queues("T")
        now.forget_numbers("broker-a")
        for queue in queues:
            if queue.broker_name == "broker-a":
                with pytest.raises(Superseded):
                    await task.let_pass(queue)
            else:
                await task.let_pass(queue)


@in_loop
async def test_a_broker_that_was_started_anew_is_not_believed_that_nobody_has_begun(tmp_path: Path) -> None:
    async with running(tmp_path) as now:
        first = guard(now.plan, now.cluster)
        await first.claim()
        await now.store(b"one")
        for name in TWO:
            now.forget_numbers(name)
            now.it.brokers[name].state.start_time_ms += 1
        await fence_of(now.cluster, now.plan.entry).set_run(1)
        second = guard(now.plan, now.cluster)
        assert await second.claim() == ids_of(b"one")
        assert not second.is_first


@in_loop
async def test_a_driver_sees_that_it_was_superseded(tmp_path: Path) -> None:
    async with running(tmp_path) as now:
        fence = fence_of(now.cluster, now.plan.entry)
        await fence.check_run(1)
        await fence.set_run(2)
        with pytest.raises(Superseded, match="has run 2, not 1"):
            await fence.check_run(1)


@in_loop
async def test_the_number_of_a_run_is_not_lowered(tmp_path: Path) -> None:
    async with running(tmp_path) as now:
        fence = fence_of(now.cluster, now.plan.entry)
        await fence.set_run(3)
        now.forget_numbers("broker-a")
        with pytest.raises(Superseded, match="broker-b has run 3 already, and this is run 2"):
            await fence.set_run(2)
        assert now.it.committed("fence", "T", "broker-b")[1 << 24] == 3
        assert 1 << 24 not in now.it.committed("fence", "T", "broker-a")
        await fence.set_run(3)
        await fence.check_run(3)


@in_loop
async def test_a_partition_that_a_later_run_has_begun_is_begun(tmp_path: Path) -> None:
    async with running(tmp_path) as now:
        fence = fence_of(now.cluster, now.plan.entry)
        await fence.claim(0, 7)
        assert await fence.is_first(0, 7, 3)
        assert not await fence.is_first(0, 7, 2)
        assert await fence.is_first(0, 7, 4)


@in_loop
async def test_tools_do_not_see_the_numbers_as_offsets_of_queues(tmp_path: Path) -> None:
    async with running(tmp_path) as now:
        await guard(now.plan, now.cluster).claim()
        queues = now.it.committed("fence", "T")
        assert queues
        assert min(queues) >= 1 << 24


@in_loop
async def test_only_noted_queues_are_written_to(tmp_path: Path) -> None:
    async with running(tmp_path) as now:
        task = guard(now.plan, now.cluster)
        with pytest.raises(SendFailed, match="nothing can be written to topic U") as failure:
            await task.queues("U")
        assert not may_pass(failure.value)
        await now.it.make_topic("T", queues=16)
        assert len(await task.queues("T")) == 8


# -- reading back --------------------------------------------------------------------------------------------


@in_loop
async def test_whether_a_send_arrived_is_found_out(tmp_path: Path) -> None:
    async with running(tmp_path) as now:
        task = guard(now.plan, now.cluster)
        await task.claim()
        queue = await now.store(b"one", b"two", queue=3)
        assert await task.is_stored(request(b"one", b"two"), queue)
        assert not await task.is_stored(request(b"three"), queue)
        with pytest.raises(ApogeeError, match="1 of the 2"):
            await task.is_stored(request(b"one", b"three"), queue)


@in_loop
async def test_only_messages_of_the_sink_from_the_start_on_are_found(tmp_path: Path) -> None:
    async with running(tmp_path) as now:
        queue = await now.store(b"before")
        await now.store(*(b"%d" % number for number in range(100)))
        await now.producer.send("T", b"somebody else's", queue=queue)
        found = await read_back(now.cluster, {queue: 1}, SCOPE.tag)
        assert found == ids_of(*(b"%d" % number for number in range(100)))
        assert await read_back(now.cluster, {queue: 102}, SCOPE.tag) == set()


@in_loop
async def test_a_queue_that_has_lost_what_is_needed_is_an_error(tmp_path: Path) -> None:
    async with running(tmp_path) as now:
        queue = await now.store(b"one")
        with pytest.raises(DataLost, match="cannot be read back"):
            await read_back(now.cluster, {queue: 5}, SCOPE.tag)


@in_loop
async def test_a_queue_that_ends_earlier_than_its_broker_said_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that has lost its newest messages, after it was asked."""
    monkeypatch.setattr(reading_back, "_BEHIND_SECONDS", 0.2)
    async with running(tmp_path) as now:
        queue = await now.store(b"one")

        async def end_of_before(_: MessageQueue) -> int:
            return 3

        monkeypatch.setattr(now.cluster.consumer, "max_offset", end_of_before)
        with pytest.raises(RequestTimedOut, match=r"from offset 1 on, though it has said that the queue ends at 3"):
            await read_back(now.cluster, {queue: 0}, SCOPE.tag)


@in_loop
async def test_a_text_that_looks_like_an_id_is_none(tmp_path: Path) -> None:
    async with running(tmp_path) as now:
        digits = SCOPE.tag.hex().upper()
        queue = next(iter(now.plan.entry.queues()))
        body = f"UNIQ_KEY\x01{digits}".encode() + b"0" * 28 + b"\x02"
        await now.producer.send("T", body, properties={"MY_UNIQ_KEY": digits + "0" * 28}, queue=queue)
        assert await read_back(now.cluster, {queue: 0}, SCOPE.tag) == set()
        assert own_ids(b"", digits.encode()) == set()
