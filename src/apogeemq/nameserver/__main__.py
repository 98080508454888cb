"""The name server process: `python -m apogeemq.nameserver SETTINGS`, started by `apogee namesrv` and `mqnamesrv`."""

from __future__ import annotations

import os
import sys

from apogeemq.nameserver.config import ServerSettings, settings_from_argument
from apogeemq.nameserver.server import NameServer
from apogeemq.runtime.process import StatusPages, run_process, serve_until_signal


def main() -> int:
    return run_process("apogeemq.nameserver", settings_from_argument, _serve)


async def _serve(settings: ServerSettings) -> None:
    pages = StatusPages(settings.config.http_bind, settings.config.http_port, "/healthz /metrics /routes")
    await serve_until_signal(NameServer(settings, os.environ), pages, _boot_line)


def _boot_line(host: str, port: int) -> str:
    return f"The Name Server boot success. serializeType=JSON, address {host}:{port}"


if __name__ == "__main__":
    sys.exit(main())
