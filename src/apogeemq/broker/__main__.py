"""The broker process: `python -m apogeemq.broker SETTINGS`, started by `apogee broker` and `mqbroker`."""

from __future__ import annotations

import logging
import os
import sys

from apogeemq.broker.advertising import advertising_warning
from apogeemq.broker.config import ServerSettings
from apogeemq.broker.server import Broker
from apogeemq.broker.settings import settings_from_argument
from apogeemq.runtime.heap import keep_large_blocks
from apogeemq.runtime.process import StatusPages, run_process, serve_until_signal

log = logging.getLogger("apogeemq.broker")


def main() -> int:
    keep_large_blocks()  # requests of some hundred kilobytes, and the records made of them, come one after the other
    return run_process("apogeemq.broker", settings_from_argument, _serve)


async def _serve(settings: ServerSettings) -> None:
    config = settings.config

    def boot_line(_: str, port: int) -> str:
        address = settings.advertised_address(port)
        log.info("clients are told to connect to %s, slaves to %s", address, settings.ha_address(port))
        warning = advertising_warning(settings.advertised_host(), config)
        if warning is not None:
            log.warning(warning)
        name_servers = f" and name server is {config.namesrv_addr}" if config.namesrv_addr else ""
        return f"The broker[{config.broker_name}, {address}] boot success. serializeType=JSON{name_servers}"

    pages = StatusPages(config.http_bind, config.http_port, "/healthz /metrics")
    await serve_until_signal(Broker(settings, os.environ), pages, boot_line)


if __name__ == "__main__":
    sys.exit(main())
