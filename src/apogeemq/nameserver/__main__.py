"""The name server process: `python -m apogeemq.nameserver SETTINGS`, started by `apogee namesrv` and `mqnamesrv`."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable

from apogeemq.errors import ApogeeError
from apogeemq.nameserver.config import ServerSettings, settings_from_argument
from apogeemq.nameserver.server import NameServer
from apogeemq.runtime.logs import set_up_logging

log = logging.getLogger("apogeemq.nameserver")


def main() -> int:
    try:
        settings = settings_from_argument(sys.argv[1] if len(sys.argv) > 1 else "", os.environ)
        set_up_logging(settings.log_level, settings.log_file)
        _raise_descriptor_limit()
        return _run(settings)
    except ApogeeError as error:
        print(f"{settings.program if 'settings' in locals() else 'apogeemq.nameserver'}: {error}", file=sys.stderr)
        return 1


def _run(settings: ServerSettings) -> int:
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_serve(settings))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        log.info("uvloop is not installed here; the standard event loop is slower, but right")
        return asyncio.new_event_loop
    return uvloop.new_event_loop


async def _serve(settings: ServerSettings) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    for line in settings.shown().splitlines():
        log.info("config %s", line)
    name_server = NameServer(settings, os.environ)
    try:
        host, port = await name_server.start()
        if settings.config.http_port >= 0:
            status_host, status_port = name_server.start_status(settings.config.http_bind, settings.config.http_port)
            print(f"Status pages: http://{status_host}:{status_port}/healthz /metrics /routes", flush=True)
        boot_line = f"The Name Server boot success. serializeType=JSON, address {host}:{port}"
        log.info(boot_line)
        gc.collect()
        gc.freeze()  # what start-up made lives as long as the process; no need to look at it again and again
        print(boot_line, flush=True)
        await stop.wait()
        log.info("stopping")
    finally:
        await name_server.stop()
    log.info("stopped")
    return 0


def _raise_descriptor_limit() -> None:
    """Each connection takes a descriptor; the usual soft limit of 1,024 is for programs that use select()."""
    with contextlib.suppress(OSError, ValueError):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    sys.exit(main())
