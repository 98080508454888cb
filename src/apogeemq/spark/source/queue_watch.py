"""Which queues a stream reads, as they come and go while it runs."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from typing import Final

from apogeemq.errors import ApogeeError, DataLost, NoRoute, RouteCause
from apogeemq.model.queues import MessageQueue
from apogeemq.spark.cluster import Cluster, may_pass
from apogeemq.spark.source.data_loss import LossRule
from apogeemq.spark.source.offsets import Offsets, named
from apogeemq.spark.source.selection import Selection
from apogeemq.spark.source.starting import present_queues

log = logging.getLogger(__name__)

# A stream may ask for new messages fifty times a second; for new queues, this is often enough.
_LOOK_AGAIN_SECONDS: Final = 1.0


class QueueWatch:
    """A queue that is missing is waited for as long as attempts last: brokers restart. Then it counts as gone, which
    ends the stream or, without `failOnDataLoss`, leaves the queue where it is in case it comes back."""

    def __init__(self, selection: Selection, rule: LossRule) -> None:
        self._selection = selection
        self._rule = rule
        self._present: frozenset[MessageQueue] = frozenset()
        self._looked_at: float | None = None
        self._gone: set[MessageQueue] = set()
        self._silent: set[MessageQueue] = set()
        self._absent: frozenset[str] = frozenset()

    def queues(self, cluster: Cluster, positions: Mapping[MessageQueue, int]) -> frozenset[MessageQueue]:
        """Those that can be read now, new ones among them. DataLost when one that has a position is gone."""
        now = time.monotonic()
        if self._looked_at is None or now >= self._looked_at + _LOOK_AGAIN_SECONDS or self._missing(positions):
            self._look(cluster)
            patience = sum(cluster.connection.retry_delays())  # a look may have taken that long by itself
            for delay in cluster.connection.retry_delays():
                if not self._missing(positions) or time.monotonic() >= now + patience:
                    break
                time.sleep(delay)
                self._look(cluster)
            self._looked_at = time.monotonic()
        for queue in self._missing(positions):
            self._give_up(queue, positions[queue])
        self._gone -= self._present
        return self._present

    def latest(self, cluster: Cluster, positions: Mapping[MessageQueue, int]) -> Offsets:
        """The ends of those queues. A broker that does not answer ends the stream, or its queues are left aside."""
        found, failed = cluster.try_max_offsets(self.queues(cluster, positions), only_once=True)
        if failed.keys() <= self._silent and not _gone_back(found, positions):
            return self._heard(found)
        # A queue that is gone may look like one that is empty or does not answer: routes tell, if they are fresh.
        self._looked_at = None
        queues = self.queues(cluster, positions)
        found, failed = cluster.try_max_offsets(queues - self._silent)
        for queue, error in failed.items():
            self.leave_aside(queue, positions.get(queue, 0), error)
        self._silent |= failed.keys()
        found |= cluster.try_max_offsets(queues & self._silent, only_once=True).found
        for delay in cluster.connection.retry_delays():
            # A broker that has just started may still be reading its log; a topic may just be on its way out.
            if not (back := _gone_back(found, positions)):
                break
            time.sleep(delay)
            self._looked_at = None
            queues = self.queues(cluster, positions)
            found = {queue: end for queue, end in found.items() if queue in queues}
            found |= cluster.try_max_offsets(queues.intersection(back), only_once=True).found
        return self._heard(found)

    def _heard(self, found: Offsets) -> Offsets:
        self._silent -= found.keys()
        return found

    def leave_aside(self, queue: MessageQueue, position: int, error: ApogeeError) -> None:
        """A queue whose broker does not answer, or is gone, stays where it is, where that is allowed. Else raises."""
        if self._rule.fails and is_nowhere(error):
            raise DataLost(queue.topic, queue.broker_name, queue.queue_id, position, None, str(error)) from error
        if self._rule.fails or not (is_nowhere(error) or may_pass(error)):
            raise error
        log.warning("%s is left aside until its broker answers: %s", named([queue]), error)

    def _missing(self, positions: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Queues of topics that are no longer asked for are none of our business."""
        return [
            queue
            for queue in positions
            if queue not in self._present and queue not in self._gone and self._selection.takes(queue)
        ]

    def _look(self, cluster: Cluster) -> None:
        answers = present_queues(cluster, self._selection)
        for topic in answers.failed.keys() - self._absent:
            log.warning("the topic %s is not there: %s", topic, answers.failed[topic])
        self._absent = frozenset(answers.failed)
        present = frozenset[MessageQueue]().union(*answers.found.values())
        if self._looked_at is not None and (new := present - self._present - self._gone):
            log.info("%d new queues, of %s", len(new), ", ".join(sorted({queue.topic for queue in new})))
        self._present = present

    def _give_up(self, queue: MessageQueue, position: int) -> None:
        why = "no route names the queue any more: its topic is deleted, or its broker gone"
        if queue not in self._gone:
            self._rule.report(DataLost(queue.topic, queue.broker_name, queue.queue_id, position, None, why))
            self._gone.add(queue)


def is_nowhere(error: ApogeeError) -> bool:
    """Name servers answer and know of no broker that has the queue. Where there are slaves only, they do."""
    return isinstance(error, NoRoute) and error.cause not in (RouteCause.NO_NAME_SERVER, RouteCause.NO_MASTER)


def _gone_back(found: Mapping[MessageQueue, int], positions: Mapping[MessageQueue, int]) -> list[MessageQueue]:
    """Queues that have been read further than they go."""
    return [queue for queue, end in found.items() if end < positions.get(queue, 0)]
