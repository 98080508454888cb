"""What becomes of messages that a task was to read and does not get."""

from __future__ import annotations

import logging

from apogeemq.errors import ApogeeError, DataLost
from apogeemq.model.queues import MessageQueue
from apogeemq.model.topic_attributes import CLEANUP_POLICY, COMPACTION
from apogeemq.spark.cluster import Cluster
from apogeemq.spark.reading.pull_outcome import PASSED_OVER
from apogeemq.spark.source.data_loss import LossRule
from apogeemq.spark.source.ranges import OffsetRange

log = logging.getLogger(__name__)


class Losses:
    """Of one task. What a broker passes over in a topic that it compacts is not lost: a later message with the same key
    has taken its place. Whether it does is asked when something is passed over, once for each topic."""

    def __init__(self, cluster: Cluster, rule: LossRule) -> None:
        self._cluster = cluster
        self._rule = rule
        self._is_compacted: dict[str, bool] = {}

    def report(self, loss: DataLost) -> None:
        """Raises it, if the rule says so."""
        queue = MessageQueue(loss.broker, loss.queue_id, loss.topic)
        if loss.why != PASSED_OVER or not self._is_of_compacted(queue):
            self._rule.report(loss)

    def report_missing(self, missing: OffsetRange) -> None:
        self.report(DataLost(*missing, PASSED_OVER))

    def _is_of_compacted(self, queue: MessageQueue) -> bool:
        found = self._is_compacted.get(queue.topic)
        if found is None:
            found = self._is_compacted[queue.topic] = self._ask(queue)
        return found

    def _ask(self, queue: MessageQueue) -> bool:
        cluster = self._cluster
        try:
            attributes = cluster.run(lambda: cluster.retried(lambda: cluster.consumer.topic_attributes(queue)))
        except ApogeeError as error:
            log.warning("whether topic %s is compacted is not known: %s", queue.topic, error)
            return False
        return attributes.get(CLEANUP_POLICY) == COMPACTION
