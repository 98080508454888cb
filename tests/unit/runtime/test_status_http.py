"""Status pages over HTTP."""

from __future__ import annotations

import asyncio
import http.client
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from apogeemq.errors import ConfigError
from apogeemq.runtime import status_http
from apogeemq.runtime.status_http import Page, Response, StatusServer
from tests.unit.event_loop import in_loop


@asynccontextmanager
async def serving(**pages: Page) -> AsyncIterator[int]:
    server = StatusServer({f"/{name}": page for name, page in pages.items()})
    host, port = server.start("127.0.0.1", 0)
    assert host == "127.0.0.1"
    try:
        yield port
    finally:
        await server.stop()


def ask(port: int, path: str, method: str = "GET") -> tuple[int, str | None, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.getheader("Content-Type"), response.read()
    finally:
        connection.close()


def ok() -> Response:
    return Response(200, "text/plain", b"fine")


@in_loop
async def test_page_runs_on_the_loop_and_its_rendering_off_it() -> None:
    threads: list[threading.Thread] = []

    def page() -> Callable[[], Response]:
        threads.append(threading.current_thread())

        def render() -> Response:
            threads.append(threading.current_thread())
            return Response(200, "application/json", b"{}")

        return render

    async with serving(routes=page) as port:
        assert await asyncio.to_thread(ask, port, "/routes?x=1") == (200, "application/json", b"{}")
    assert threads[0] is threading.current_thread()
    assert threads[1] is not threads[0]


@in_loop
async def test_head_has_no_body() -> None:
    async with serving(healthz=ok) as port:
        assert await asyncio.to_thread(ask, port, "/healthz", "HEAD") == (200, "text/plain", b"")


@in_loop
async def test_unknown_path_names_the_known_ones() -> None:
    async with serving(healthz=ok, metrics=ok) as port:
        status, _, body = await asyncio.to_thread(ask, port, "/admin")
    assert status == 404
    assert body == b"no such page; there are /healthz /metrics\n"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
@in_loop
async def test_only_reading_is_served(method: str) -> None:
    async with serving(healthz=ok) as port:
        status, _, _ = await asyncio.to_thread(ask, port, "/healthz", method)
    assert status == 501


@in_loop
async def test_page_that_fails_does_not_tell_why_to_the_world(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> Response:
        raise KeyError("secret")

    async with serving(broken=broken, healthz=ok) as port:
        status, _, body = await asyncio.to_thread(ask, port, "/broken")
        assert (await asyncio.to_thread(ask, port, "/healthz"))[0] == 200
    assert status == 500
    assert b"secret" not in body
    assert "secret" in caplog.text


@in_loop
async def test_busy_loop_is_told_after_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_http, "LOOP_SECONDS", 0.05)
    answers: list[tuple[int, str | None, bytes]] = []
    async with serving(healthz=ok) as port:
        asking = threading.Thread(target=lambda: answers.append(ask(port, "/healthz")))
        asking.start()
        asking.join()  # the loop is this thread, and it waits here
    assert answers[0][0] == 503


@in_loop
async def test_connections_beyond_the_limit_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_http, "MAX_CONNECTIONS", 2)
    async with serving(healthz=ok) as port:
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
        for connection in silent:  # half a request, so that a place is taken for sure before the next comes
            connection.sendall(b"GET /healthz")
        third = socket.create_connection(("127.0.0.1", port))
        assert await asyncio.to_thread(third.recv, 1) == b""
        for connection in silent:
            connection.sendall(b" HTTP/1.0\r\n\r\n")
            assert (await asyncio.to_thread(connection.recv, 12)).startswith(b"HTTP/1.0 200")
        for connection in (*silent, third):
            connection.close()


@in_loop
async def test_a_slow_peer_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_http, "CONNECTION_SECONDS", 0.0)
    async with serving(healthz=ok) as port:
        with socket.create_connection(("127.0.0.1", port)) as slow:
            slow.sendall(b"GET /healthz HTTP/1.0\r\nX: ")
            assert await asyncio.to_thread(slow.recv, 1) == b""


@in_loop
async def test_stop_frees_the_port_and_ends_connections() -> None:
    async with serving(healthz=ok) as port:
        open_connection = socket.create_connection(("127.0.0.1", port))
        open_connection.sendall(b"GET /")
        assert (await asyncio.to_thread(ask, port, "/healthz"))[0] == 200
    assert await asyncio.to_thread(open_connection.recv, 1) == b""
    open_connection.close()
    with pytest.raises(ConnectionRefusedError):
        ask(port, "/healthz")


@in_loop
async def test_port_in_use_is_one_sentence() -> None:
    async with serving(healthz=ok) as port:
        with pytest.raises(ConfigError, match=rf"cannot serve status pages on 127\.0\.0\.1:{port}: Address already"):
            StatusServer({}).start("127.0.0.1", port)


@in_loop
async def test_stop_without_start_is_nothing() -> None:
    await StatusServer({}).stop()
