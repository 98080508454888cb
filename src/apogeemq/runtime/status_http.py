"""A few read-only pages over HTTP beside a server: metrics, health, state.

Pages are served by the standard library's HTTP server in a thread of its own, but what they show belongs to the
event loop; so a page's function runs on the loop and hands over what it found. It may return the finished
response or, when turning it into bytes takes long, a function that does that and is called off the loop.

Importing this costs some memory; a server without a status port does not import it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import BoundedSemaphore, Thread
from typing import Any, Final, NamedTuple, TypeAlias

from apogeemq.errors import ConfigError

log = logging.getLogger(__name__)

MAX_CONNECTIONS: Final = 16  # a scraper or two, a health check and a person
CONNECTION_SECONDS: Final = 10.0  # from accept to the last byte, so that nobody holds a place by dribbling
LOOP_SECONDS: Final = 5.0  # for the event loop to run a page's function


class Response(NamedTuple):
    status: int
    content_type: str
    body: bytes


Page: TypeAlias = Callable[[], Response | Callable[[], Response]]


class StatusServer:
    """Serves GET and HEAD of the given paths. `start` and `stop` are called on the event loop."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages
        self._server: _Listener | None = None
        self._thread: Thread | None = None

    def start(self, host: str, port: int) -> tuple[str, int]:
        """Bind and serve; gives the address that was bound (port 0 takes any that is free)."""
        loop = asyncio.get_running_loop()
        try:
            server = _Listener(host, port, lambda path: self._answer(loop, path))
        except OSError as error:
            reason = error.strerror or error
            raise ConfigError(f"cannot serve status pages on {host}:{port}: {reason}") from error
        self._server = server
        self._thread = Thread(target=server.serve_forever, name="status-http", daemon=True)
        self._thread.start()
        bound = server.socket.getsockname()
        return str(bound[0]), int(bound[1])

    async def stop(self) -> None:
        server, thread, self._server = self._server, self._thread, None
        if server is None or thread is None:
            return
        await asyncio.to_thread(server.shutdown)
        server.server_close()
        server.close_connections()
        await asyncio.to_thread(thread.join)

    def _answer(self, loop: asyncio.AbstractEventLoop, path: str) -> Response:
        page = self._pages.get(path)
        if page is None:
            known = " ".join(sorted(self._pages))
            return _sentence(HTTPStatus.NOT_FOUND, f"no such page; there are {known}")
        found: Future[Response | Callable[[], Response]] = Future()
        try:
            loop.call_soon_threadsafe(_run_into, found, page)
            response = found.result(LOOP_SECONDS)
            return response if isinstance(response, Response) else response()
        except TimeoutError:
            return _sentence(HTTPStatus.SERVICE_UNAVAILABLE, f"the event loop is busy for over {LOOP_SECONDS:g} s")
        except RuntimeError as error:
            if loop.is_closed():
                return _sentence(HTTPStatus.SERVICE_UNAVAILABLE, "the server has stopped")
            return _failure(path, error)
        except Exception as error:
            return _failure(path, error)


def _run_into(found: Future[Any], page: Page) -> None:
    if not found.set_running_or_notify_cancel():
        return
    try:
        found.set_result(page())
    except Exception as error:
        found.set_exception(error)


def _sentence(status: HTTPStatus, text: str) -> Response:
    return Response(status, "text/plain; charset=utf-8", text.encode() + b"\n")


def _failure(path: str, error: Exception) -> Response:
    log.error("status page %s failed", path, exc_info=error)
    return _sentence(HTTPStatus.INTERNAL_SERVER_ERROR, "this page failed; the log says why")


class _Listener(ThreadingHTTPServer):
    """The standard server with a bound on connections and on how long each may take."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, host: str, port: int, answer: Callable[[str], Response]) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.answer = answer
        self._places = BoundedSemaphore(MAX_CONNECTIONS)
        self._deadlines: dict[socket.socket, float] = {}
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        # The standard HTTP server asks DNS for its own name here, which can take seconds; nobody needs it.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        self._deadlines[request] = time.monotonic() + CONNECTION_SECONDS
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread to be had
            self._leave(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._leave(request)

    def _leave(self, request: socket.socket) -> None:
        self._deadlines.pop(request, None)
        self._places.release()

    def service_actions(self) -> None:
        """Called about twice a second: end what takes too long; its thread then finds the connection closed."""
        now = time.monotonic()
        for connection, deadline in tuple(self._deadlines.items()):
            if deadline < now:
                _break_off(connection)

    def close_connections(self) -> None:
        for connection in tuple(self._deadlines):
            _break_off(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("status connection of %s ended early", client_address, exc_info=True)


def _break_off(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        log.debug("a status connection was closed already")


class _Handler(BaseHTTPRequestHandler):
    """One request per connection (HTTP/1.0): parse, ask, write."""

    server: _Listener
    server_version = "ApogeeMQ"
    sys_version = ""
    timeout = CONNECTION_SECONDS

    def do_GET(self) -> None:
        self._respond(with_body=True)

    def do_HEAD(self) -> None:
        self._respond(with_body=False)

    def _respond(self, *, with_body: bool) -> None:
        response = self.server.answer(self.path.partition("?")[0])
        self.send_response(response.status)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if with_body:
            self.wfile.write(response.body)

    def log_message(self, format: str, *args: Any) -> None:
        log.debug("%s %s", self.address_string(), format % args)
