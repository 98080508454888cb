"""How large messages are: brokers do not say, so the next few of each queue are looked at."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from apogeemq.client import PullStatus
from apogeemq.errors import ApogeeError
from apogeemq.model.queues import MessageQueue
from apogeemq.spark.cluster import Cluster
from apogeemq.spark.source.ranges import OffsetRange

log = logging.getLogger(__name__)

_SAMPLE: Final = 32
_AT_ONCE: Final = 16


def mean_sizes(cluster: Cluster, ranges: Iterable[OffsetRange]) -> dict[MessageQueue, float]:
    """In bytes as they are stored, of the first messages of each range; queues of which nothing is known are absent."""

    async def all_of_them() -> dict[MessageQueue, float]:
        found: dict[MessageQueue, float] = {}
        turns = asyncio.Semaphore(_AT_ONCE)

        async def sample(one: OffsetRange) -> None:
            try:
                async with turns:
                    pull = await cluster.retried(lambda: cluster.consumer.pull_raw(one.queue, one.start, _SAMPLE))
            except ApogeeError as error:  # whoever reads the messages will say whether that matters
                log.warning("the size of messages of %s is not known: %s", one, error)
                return
            count = pull.next_offset - one.start
            if pull.status is PullStatus.FOUND and count > 0:
                found[one.queue] = len(pull.records) / count

        await asyncio.gather(*(sample(one) for one in ranges if one.size > 0))
        return found

    return cluster.run(all_of_them)
