"""What the status port shows."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from typing import Any

from apogeemq import __version__
from apogeemq.protocol.codes import RequestCode
from tests.unit.event_loop import in_loop
from tests.unit.nameserver.live import Home, Running


def _fetch(url: str) -> tuple[str, str]:
    with urllib.request.urlopen(url, timeout=20) as response:
        return response.headers["Content-Type"], response.read().decode()


class Pages:
    def __init__(self, running: Running) -> None:
        host, port = running.name_server.start_status("127.0.0.1", 0)
        self._base = f"http://{host}:{port}"

    async def text(self, path: str) -> tuple[str, str]:
        return await asyncio.to_thread(_fetch, self._base + path)

    async def json(self, path: str) -> dict[str, Any]:
        content_type, text = await self.text(path)
        assert content_type == "application/json"
        page: dict[str, Any] = json.loads(text)
        return page

    async def metrics(self) -> dict[str, float]:
        _, text = await self.text("/metrics")
        pairs = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}


@in_loop
async def test_health_counts_what_is_there(home: Home) -> None:
    async with home.serve() as running:
        await running.client().register()
    async with home.serve() as running:
        pages = Pages(running)
        await running.client().register("broker-b", topics=["V", "W"])
        health = await pages.json("/healthz")
        assert health.pop("uptimeSeconds") >= 0
        assert health == {"status": "ok", "version": __version__, "brokers": 2, "restoredBrokers": 1, "topics": 4}


@in_loop
async def test_routes_show_every_topic_and_what_is_restored(home: Home) -> None:
    async with home.serve() as running:
        await running.client().register(topics=["T", "U"])
    async with home.serve() as running:
        pages = Pages(running)
        await running.client().register("broker-b", cluster="c2", topics=["T", "A"])
        routes = await pages.json("/routes")
        assert routes["clusters"] == {"c1": ["broker-a"], "c2": ["broker-b"]}
        assert routes["brokers"]["broker-a"]["restored"] is True
        assert routes["brokers"]["broker-b"] == {
            "brokerAddrs": {"0": "broker-b-0:10911"},
            "brokerName": "broker-b",
            "cluster": "c2",
            "enableActingMaster": False,
            "restored": False,
        }
        assert list(routes["topics"]) == ["A", "T", "U"]
        assert [queue["brokerName"] for queue in routes["topics"]["T"]] == ["broker-a", "broker-b"]


@in_loop
async def test_metrics_count_requests_connections_and_state(home: Home) -> None:
    async with home.serve() as running:
        pages = Pages(running)
        client = running.client()
        await client.register()
        for _ in range(5):  # some of them answered without being decoded
            await client.route("TopicA")
        await client.ask(9_999)
        metrics = await pages.metrics()
        name = "apogee_namesrv_requests_total"
        assert metrics[f'{name}{{code="105",name="GET_ROUTEINFO_BY_TOPIC"}}'] == 5
        assert metrics[f'{name}{{code="103",name="REGISTER_BROKER"}}'] == 1
        wanted = {
            "connections_accepted_total": 1,
            "connections": 1,
            "brokers": 1,
            "brokers_restored": 0,
            "clusters": 1,
            "topics": 2,
            "route_cache_entries": 1,
            "journal_sequence": 3,
            "journal_failures_total": 0,
            "snapshot_failures_total": 0,
            "request_failures_total": 0,
            "access_refusals_total": 0,
            "held_requests": 0,
            "route_watchers": 0,
            'connections_closed_total{reason="malformed"}': 0,
        }
        assert {key: metrics[f"apogee_namesrv_{key}"] for key in wanted} == wanted
        assert metrics["apogee_namesrv_route_cache_bytes"] == running.name_server.registry.cache.size > 0
        assert metrics["process_resident_memory_bytes"] > 0


@in_loop
async def test_metrics_without_journal_and_snapshot(home: Home) -> None:
    async with home.serve(journalEnable="false", warmStart="false") as running:
        metrics = await Pages(running).metrics()
        assert metrics["apogee_namesrv_journal_sequence"] == 0
        assert metrics["apogee_namesrv_snapshot_failures_total"] == 0


@in_loop
async def test_every_code_that_is_served_has_a_name(home: Home) -> None:
    async with home.serve() as running:
        assert set(running.name_server.dispatcher.handlers) <= set(RequestCode)
        metrics = await Pages(running).metrics()
        assert sum(name.startswith("apogee_namesrv_requests_total") for name in metrics) == len(
            running.name_server.dispatcher.handlers
        )
