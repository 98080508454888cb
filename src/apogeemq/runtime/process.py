"""The life of a server process: settings in, boot line out, a signal to end it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, Protocol

from apogeemq.errors import ApogeeError
from apogeemq.runtime.event_loops import loop_factory
from apogeemq.runtime.logs import set_up_logging
from apogeemq.runtime.settings import ProcessSettings, SettingsT

log = logging.getLogger(__name__)


class ServerParty(Protocol):
    """A server as its process sees it."""

    async def start(self) -> tuple[str, int]:
        """The address it listens on, where it is ready when this returns."""
        ...

    def start_status(self, host: str, port: int) -> tuple[str, int]: ...

    async def stop(self) -> None:
        """Also after a start that failed."""
        ...


class StatusPages(NamedTuple):
    """Where pages over HTTP are wanted, and which there are. A negative port: nowhere."""

    host: str
    port: int
    names: str


def run_process(
    name: str,
    read_settings: Callable[[str, Mapping[str, str]], SettingsT],
    serve: Callable[[SettingsT], Awaitable[None]],
) -> int:
    """The exit status. A failure we know the reason of is one sentence of the command that was called."""
    try:
        settings = read_settings(sys.argv[1] if len(sys.argv) > 1 else "", os.environ)
        name = settings.program or name
        set_up_logging(settings.log_level, settings.log_file)
        _raise_descriptor_limit()
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_logged(settings, serve))
    except ApogeeError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    return 0


async def serve_until_signal(
    server: ServerParty, status_pages: StatusPages, boot_line: Callable[[str, int], str]
) -> None:
    """Start, say so, and stop when the process is told to end."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        host, port = await server.start()
        if status_pages.port >= 0:
            status_host, status_port = server.start_status(status_pages.host, status_pages.port)
            print(f"Status pages: http://{status_host}:{status_port}{status_pages.names}", flush=True)
        line = boot_line(host, port)
        log.info(line)
        gc.collect()
        gc.freeze()  # what start-up made lives as long as the process; no need to look at it again and again
        print(line, flush=True)
        await stop.wait()
        log.info("stopping")
    finally:
        await server.stop()
    log.info("stopped")


async def _logged(settings: SettingsT, serve: Callable[[SettingsT], Awaitable[None]]) -> None:
    _log_configuration(settings)
    await serve(settings)


def _log_configuration(settings: ProcessSettings) -> None:
    for line in settings.shown().splitlines():
        log.info("config %s", line)


def _raise_descriptor_limit() -> None:
    """Each connection takes a descriptor; the usual soft limit of 1,024 is for programs that use select()."""
    with contextlib.suppress(OSError, ValueError):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
