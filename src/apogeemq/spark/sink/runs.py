"""The runs of a sink's epochs, as its driver begins them: each knows where the queues were before the epoch, and keeps
the writers of all runs before it out."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from functools import cached_property, partial
from typing import Any, Final, NamedTuple

from apogeemq.client import MessageQueue
from apogeemq.errors import ConfigError, NoRoute, RouteCause
from apogeemq.spark.cluster import Cluster, cluster_of
from apogeemq.spark.sink.epoch_task import fence_of
from apogeemq.spark.sink.fence import Fence, settle_seconds
from apogeemq.spark.sink.ids import IdScope
from apogeemq.spark.sink.ledger import EpochLedger, EpochRun, IdSource, LastRun, Starts
from apogeemq.spark.sink.read_back import read_back
from apogeemq.spark.sink.write_options import WriteOptions

log = logging.getLogger(__name__)

_MISSING: Final = frozenset((RouteCause.NO_AUTO_CREATION, RouteCause.NOT_YET))
_MADE_SECONDS: Final = 30.0
_LOOK_AGAIN_SECONDS: Final = 0.2


class TakenOver(NamedTuple):
    """`there` are the ids that runs of before have written, `broker_starts` since when the brokers run."""

    there: set[bytes]
    broker_starts: dict[str, str]


class EpochRuns:
    """Of one sink."""

    def __init__(self, ledger: EpochLedger, options: WriteOptions, query_id: str) -> None:
        self._ledger = ledger
        self._options = options
        self._ids = IdSource(query_id, options.id_columns)

    @cached_property
    def group(self) -> str:
        """Of the fence. It is the ledger's, as the numbers of the runs are: the same when options are changed amid an
        epoch, and another one when the ledger is removed and numbers begin anew."""
        return f"apogeemq-fence-{self._ledger.sink_id()}"

    @property
    def _cluster(self) -> Cluster:
        return cluster_of(self._options.connection, self.group)

    # -- where the queues were -------------------------------------------------------------------------------

    def begin(self, epoch: int, before: LastRun | None) -> EpochRun:
        """Raises Superseded, and ConfigError when what was written of the epoch could not be found."""
        run = before.entry.run + 1 if before is not None else 1
        starts: Starts = {}
        if before is not None and before.entry.epoch == epoch:
            self._check_ids(before.entry)
            lost = self._options.lost_brokers
            starts = {queue: at for queue, at in before.entry.queues().items() if queue.broker_name not in lost}
        starts = self._completed(starts)
        if not starts:
            raise ConfigError(f"option lostBrokers names all brokers of {', '.join(self._options.known_topics)}")
        return self._ledger.begin(epoch, run, starts, self._ids)

    def _check_ids(self, before: EpochRun) -> None:
        if before.ids is not None and before.ids != self._ids:
            raise ConfigError(
                f"epoch {before.epoch} is not done, and the ids of its rows were made with {before.ids}; now there are "
                f"{self._ids}, and what is written already would not be found: put back what there was until the epoch "
                "is done, or start with a new checkpoint"
            )

    def _completed(self, starts: Starts) -> Starts:
        """With where the queues of other topics are now: a run writes only where it has noted queues, so runs of before
        have written nothing there. Queues of brokers that do not answer are not written to in this epoch."""
        noted = {queue.topic for queue in starts}
        missing = [topic for topic in self._options.known_topics if topic not in noted]
        cluster = self._cluster
        made = [cluster.run(partial(self._made_queues, topic)) for topic in missing]
        asked = [queue for queues in made for queue in queues if queue.broker_name not in self._options.lost_brokers]
        answers = cluster.try_max_offsets(asked)
        completed = starts | answers.found
        for queue, error in answers.failed.items():
            log.warning("queue %d of %s is left out: %s", queue.queue_id, queue.broker_name, error)
            if not completed:
                raise error
        return completed

    async def _made_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Those that can be written to; a topic that does not exist is made."""
        cluster, deadline = self._cluster, time.monotonic() + _MADE_SECONDS
        consumer, is_made = cluster.consumer, False
        while True:
            try:
                return await cluster.retried(lambda: consumer.publish_queues(topic))
            except NoRoute as error:
                if error.cause not in _MISSING or time.monotonic() > deadline:
                    raise
                if not is_made:
                    await cluster.retried(_creation(consumer.create_topic, topic, self._options.topic_queues))
                    is_made = True
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    # -- who wrote before ------------------------------------------------------------------------------------

    def take_over(self, entry: EpochRun, before: LastRun | None) -> TakenOver:
        """Keep out the writers of before, and read what they have written. Raises Superseded."""
        cluster = self._cluster
        fence = fence_of(cluster, entry)
        broker_starts = cluster.run(partial(_set_run, cluster, fence, entry))
        # This driver may have stood still since it looked at the ledger, while another one finished the epoch, and its
        # number may now be in the place of a later one. Whoever has begun anything later before this question is seen
        # by it; then no task of this run is started, and the tasks of that driver, should they find this number, stop
        # and come again in a run of their own. Whoever begins later finds this run unfinished in the ledger, and
        # writes its number after it has begun, so after ours: then our tasks stop, and it waits for them.
        self._ledger.check_last(entry)
        if before is not None and not before.is_done:
            cluster.run(partial(_settle, cluster, fence, entry, settle_seconds(self._options.send_timeout_ms)))
        there: set[bytes] = set()
        if before is not None and before.entry.epoch == entry.epoch:
            tag = IdScope(self._ids.query_id, entry.epoch).tag
            there = cluster.run(lambda: read_back(cluster, entry.queues(), tag))
        return TakenOver(there, broker_starts)


async def _set_run(cluster: Cluster, fence: Fence, entry: EpochRun) -> dict[str, str]:
    await cluster.retried(fence.open)
    broker_starts = await cluster.retried(fence.starts)
    await cluster.retried(lambda: fence.set_run(entry.run))
    return broker_starts


async def _settle(cluster: Cluster, fence: Fence, entry: EpochRun, seconds: float) -> None:
    log.warning("epoch %d, run %d: waiting %g s for writers of before", entry.epoch, entry.run, seconds)
    await asyncio.sleep(seconds)
    await cluster.retried(lambda: fence.check_run(entry.run))


def _creation(
    create: Callable[..., Coroutine[Any, Any, None]], topic: str, queues: int
) -> Callable[[], Coroutine[Any, Any, None]]:
    return lambda: create(topic, queues)
