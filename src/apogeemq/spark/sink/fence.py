"""Who may write: numbers that brokers keep, as consumer offsets of a group and of queues that do not exist.

A broker cannot be told to refuse a writer, so a writer asks: right before it sends, and again when its last question is
more than LEASE_SECONDS old. It sends only while it finds its own numbers. Whoever takes over writes other numbers to
every broker and waits until what a writer sent after its last question must have arrived (`settle_seconds`); then it
reads what is there.

Each broker that a sink may write to has

- the number of the run: one for each attempt of a driver at an epoch;
- for each partition of the job, the token of the task that writes it, and the number of the run in which a task has
  begun to write it.

Brokers keep offsets in memory and write them to disk every 5 s. One that is killed may forget the last seconds: whoever
took over has waited longer than that, a writer whose number is gone sends no more, and a task that finds a broker
started anew does not take its word that nobody has begun.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from apogeemq.client import MessageQueue, PullConsumer
from apogeemq.errors import RemoteRefused, Superseded

log = logging.getLogger(__name__)

LEASE_SECONDS: Final = 1.0
_KEPT_SECONDS: Final = 6.0

_STARTED: Final = "bootTimestamp"

MAX_PARTITIONS: Final = 16_384
# Beyond any queue that a topic has, so that no tool shows these offsets as somebody's lag.
_RUN: Final = 1 << 24
_TOKENS: Final = _RUN + 1
_BEGUN: Final = _TOKENS + MAX_PARTITIONS


def settle_seconds(send_timeout_ms: int) -> float:
    """A send may wait for its time-out before it leaves, and the kernel may try for as long again to get it across.
    What has not left by the time-out, or when the process ends, is dropped (`ClientOptions.unacknowledged_seconds`)."""
    return max(_KEPT_SECONDS, LEASE_SECONDS + 2 * send_timeout_ms / 1000)


class Fence:
    """The numbers at the brokers of a sink. `topics` names for each broker a topic it serves."""

    def __init__(self, consumer: PullConsumer, topics: Mapping[str, str]) -> None:
        self._consumer = consumer
        self._topics = dict(topics)
        # Where tasks settle among themselves who was first.
        self._first = min(topics)

    @property
    def brokers(self) -> frozenset[str]:
        return frozenset(self._topics)

    async def open(self) -> None:
        """Brokers make a group when it first reads."""
        await asyncio.gather(
            *(self._consumer.pull(MessageQueue(broker, 0, topic), 0, 1) for broker, topic in self._topics.items())
        )

    async def starts(self) -> dict[str, str]:
        """When each broker was started, as far as they say."""
        figures = await asyncio.gather(*(self._figures(broker) for broker in self._topics))
        return {broker: found.get(_STARTED, "") for broker, found in zip(self._topics, figures, strict=True)}

    async def _figures(self, broker: str) -> dict[str, str]:
        try:
            return await self._consumer.broker_figures(MessageQueue(broker, 0, self._topics[broker]))
        except RemoteRefused as error:  # not everybody may ask
            log.warning("%s does not say since when it runs: %s", broker, error)
            return {}

    # -- the driver's ----------------------------------------------------------------------------------------

    async def set_run(self, run: int) -> None:
        """Raises Superseded where a broker has a later one: to lower it would stop the writers of that one. This spares
        them most of it; it rules nothing out, for the later one may be written between the question and the answer."""
        for broker, value in (await self._runs()).items():
            if value is not None and value > run:  # None: never had one, or has lost its memory
                raise Superseded(
                    f"{broker} has run {value} already, and this is run {run}: another driver writes, or the sink's "
                    "ledger was set back"
                )
        await asyncio.gather(*(self._write(broker, _RUN, run) for broker in self._topics))

    async def check_run(self, run: int) -> None:
        """Raises Superseded unless all brokers have this run."""
        for broker, value in (await self._runs()).items():
            if value != run:
                raise Superseded(
                    f"{broker} has run {value}, not {run}: another driver writes, or it has lost its memory"
                )

    async def _runs(self) -> dict[str, int | None]:
        found = await asyncio.gather(*(self._read(broker, _RUN) for broker in self._topics))
        return dict(zip(self._topics, found, strict=True))

    # -- the tasks' ------------------------------------------------------------------------------------------

    async def claim(self, partition: int, token: int) -> None:
        await asyncio.gather(*(self._write(broker, _TOKENS + partition, token) for broker in self._topics))

    async def is_first(self, partition: int, token: int, run: int) -> bool:
        """Whether nobody else can have written the partition in this run; `claim` has gone before.

        Of several tasks that ask, whenever they do, at most one is told so (Lamport's splitter): it finds nobody who
        has begun, says that it has, and still finds its own token.
        """
        begun = await self._read(self._first, _BEGUN + partition)
        if begun is not None and begun >= run:
            return False
        await self._write(self._first, _BEGUN + partition, run)
        return await self._read(self._first, _TOKENS + partition) == token

    async def check(self, broker: str, partition: int, token: int, run: int) -> None:
        """Raises Superseded unless this task may write to this broker."""
        found_run, found_token = await asyncio.gather(self._read(broker, _RUN), self._read(broker, _TOKENS + partition))
        if found_run != run:
            raise Superseded(f"run {run} has been superseded: {broker} has run {found_run}")
        if found_token != token:
            raise Superseded(f"the task has been superseded: partition {partition} has another writer at {broker}")

    async def _read(self, broker: str, number: int) -> int | None:
        return await self._consumer.committed(MessageQueue(broker, number, self._topics[broker]))

    async def _write(self, broker: str, number: int, value: int) -> None:
        await self._consumer.update_consume_offset(MessageQueue(broker, number, self._topics[broker]), value)
