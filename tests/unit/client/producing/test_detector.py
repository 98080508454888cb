"""Brokers that failed, and are looked after."""

from __future__ import annotations

from pathlib import Path

import pytest

from apogeemq.client import ClientOptions, Producer, ProducerOptions
from apogeemq.errors import SendFailed
from apogeemq.protocol.codes import RequestCode, ResponseCode
from tests.peers.process import free_port
from tests.unit.client.cluster import cluster, eventually
from tests.unit.client.producing.tampering import refuse_sends
from tests.unit.event_loop import in_loop

LOOKING = ProducerOptions(avoids_slow_brokers=True, detects_brokers=True, detect_seconds=0.01, retries=0)
UNWATCHED = ClientOptions(watches_routes=False)


@in_loop
async def test_a_broker_that_refused_is_preferred_again_when_it_answers(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it, Producer(it.address, group="P", options=LOOKING) as producer:
        await it.make_topic("T", 1)
        await producer.queues("T")
        dispatcher = it.brokers["broker-a"].server.dispatcher
        answers = dispatcher.handlers.pop(RequestCode.GET_MAX_OFFSET)
        refuse_sends(it, "broker-a", ResponseCode.SYSTEM_BUSY)
        with pytest.raises(SendFailed):
            await producer.send("T", b"x")
        assert producer._faults.unreachable() == {"broker-a"}
        dispatcher.register(RequestCode.GET_MAX_OFFSET, answers)
        await eventually(lambda: not producer._faults.unreachable())
        assert producer._faults.unavailable(0) == {"broker-a"}  # the pause is another matter


@in_loop
async def test_a_broker_that_was_gone(tmp_path: Path) -> None:
    port = free_port(-2, 1)
    async with cluster(tmp_path) as it:
        leaving = await it.add_broker("broker-b", listenPort=str(port))
        await it.make_topic("T", 1, "broker-b")
        async with Producer(it.address, group="P", options=LOOKING, client=UNWATCHED) as producer:
            await producer.send("T", b"x")
            await leaving.aclose()
            with pytest.raises(SendFailed):
                await producer.send("T", b"x")
            assert producer._faults.unreachable() == {"broker-b"}
            await it.add_broker("broker-b", listenPort=str(port))
            await eventually(lambda: not producer._faults.unreachable())


@in_loop
async def test_a_broker_that_no_route_names_is_forgotten(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it, Producer(it.address, group="P", options=LOOKING) as producer:
        producer._faults.report("unknown", 1, 0, has_failed=True, is_reachable=False)
        await eventually(lambda: not producer._faults.unavailable(0))
        assert it.brokers
