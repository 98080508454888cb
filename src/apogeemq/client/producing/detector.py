"""Looks whether brokers that failed are back, so that a producer need not find out with a message."""

from __future__ import annotations

import asyncio
import logging

from apogeemq.client.instance import ClientInstance
from apogeemq.client.producing.destinations import Destinations
from apogeemq.client.producing.queue_choice import LatencyFaults
from apogeemq.errors import ApogeeError

log = logging.getLogger(__name__)


class Detector:
    def __init__(
        self, instance: ClientInstance, destinations: Destinations, faults: LatencyFaults, timeout_seconds: float
    ) -> None:
        self._instance = instance
        self._destinations = destinations
        self._faults = faults
        self._timeout_seconds = timeout_seconds

    async def look(self) -> None:
        """Once at each that failed. Those that no route names any more are forgotten."""
        await asyncio.gather(*(self._look_at(name) for name in self._faults.unreachable()))

    async def _look_at(self, broker_name: str) -> None:
        address = self._instance.master_of(broker_name)
        queue = self._destinations.queue_of(broker_name)
        if address is None or queue is None:
            self._faults.forget(broker_name)
            return
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await self._instance.calls.max_offset(address, queue)
        except (ApogeeError, TimeoutError):
            return
        log.info("the broker %s is back", broker_name)
        self._faults.came_back(broker_name)
