"""The status port: metrics and health over HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from tests.unit.broker.handlers.members import serving
from tests.unit.event_loop import in_loop
from tests.unit.nameserver.live import Home, eventually


async def get(address: tuple[str, int], path: str) -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        return int(head.split()[1]), body
    finally:
        writer.close()
        await writer.wait_closed()


@in_loop
async def test_health_says_who_it_is_and_who_knows_it(tmp_path: Path) -> None:
    async with Home(tmp_path / "names").serve() as names, serving(tmp_path, namesrvAddr=names.address) as broker:
        address = broker.broker.start_status("127.0.0.1", 0)
        await eventually(lambda: any(state.is_registered for state in broker.broker.registration.states))
        code, body = await get(address, "/healthz")
        health: dict[str, Any] = msgspec.json.decode(body)
        assert (code, health["status"], health["problem"]) == (200, "ok", None)
        assert (health["brokerName"], health["address"]) == ("broker-a", broker.address)
        assert health["nameServers"] == {names.address: True}


@in_loop
async def test_broker_that_cannot_store_is_not_healthy(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        address = broker.broker.start_status("127.0.0.1", 0)
        broker.state.opened.store.flush_error = OSError(5, "Input/output error")
        code, body = await get(address, "/healthz")
        health = msgspec.json.decode(body)
        assert (code, health["status"]) == (503, "read-only")
        assert "Input/output error" in health["problem"]


@in_loop
async def test_metrics_are_prometheus_text(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        address = broker.broker.start_status("127.0.0.1", 0)
        code, body = await get(address, "/metrics")
        assert code == 200
        assert b"apogee_broker_writable 1.0" in body
        assert b"process_open_fds" in body
        assert (await get(address, "/none"))[0] == 404
