"""Delivery of delayed messages: when its time has come, a message of the schedule topic is put where it belongs.

Each level's queue is in the order of its due times, so only its first message is looked at. The offset of what has been
delivered is kept in a file: after a crash the last few are delivered again, none is lost.
"""

from __future__ import annotations

import logging
import re

from apogeemq.broker.incoming import tags_code
from apogeemq.broker.putting import Putter
from apogeemq.broker.stats import BrokerStats
from apogeemq.broker.tables.delay_offsets import DelayOffsets
from apogeemq.errors import RequestRefused
from apogeemq.model import properties as names
from apogeemq.model.delays import DelayLevels
from apogeemq.model.properties import decode_properties
from apogeemq.model.topics import SCHEDULE_TOPIC, topic_problem
from apogeemq.protocol.record import Record
from apogeemq.store.message_marks import index_keys
from apogeemq.store.message_store import MessageStore
from apogeemq.store.results import NewMessage

log = logging.getLogger(__name__)

TICK_SECONDS = 0.1
_CLOCK_SLACK_MS = 60_000  # clocks are put right by a little all the time
_QUEUE_ID = re.compile(r"[0-9]{1,9}", re.ASCII)
_MOST_PER_TICK = 1_000  # of one level, so that a flood that is due does not stop the broker


class DelayedDelivery:
    """`tick` is called every TICK_SECONDS."""

    def __init__(
        self,
        store: MessageStore,
        putter: Putter,
        delays: DelayLevels,
        offsets: DelayOffsets,
        stats: BrokerStats,
    ) -> None:
        self._store = store
        self._putter = putter
        self._delays = delays
        self._offsets = offsets
        self._stats = stats
        self.delivered_count = 0

    def tick(self, now_ms: int) -> None:
        for level in range(1, self._delays.max_level + 1):
            queue = self._store.queues.get((SCHEDULE_TOPIC, level - 1))
            if queue is not None and queue.max_offset > queue.min_offset:
                self._deliver(level, now_ms)

    def _deliver(self, level: int, now_ms: int) -> None:
        queue = self._store.queues[SCHEDULE_TOPIC, level - 1]
        offset = min(max(self._offsets.get(level), queue.min_offset), queue.max_offset)
        self._offsets.set(level, offset)
        # A message that would wait longer than its level is one from before the clock was put back: it is due now.
        latest_ms = now_ms + self._delays.delay_ms(level) + _CLOCK_SLACK_MS
        for _ in range(_MOST_PER_TICK):
            entry = queue.entry(offset)
            if entry is None:
                break
            physical_offset, _, due_ms = entry
            if now_ms < due_ms <= latest_ms:
                break
            record = self._store.log.record_at(physical_offset)
            if record is None:
                log.error("the delayed message at %d cannot be read and is passed over", physical_offset)
            elif not self._restore(record, now_ms):
                break  # the disk is full, or writing has stopped: later
            offset += 1
            self._offsets.set(level, offset)  # at once: whatever goes wrong with the next, this one is delivered

    def _restore(self, record: Record, now_ms: int) -> bool:
        properties = decode_properties(record.properties.decode(errors="replace"))
        topic = properties.get(names.REAL_TOPIC)
        queue_text = properties.get(names.REAL_QUEUE_ID, "")
        if topic_problem(topic) is not None or topic is None or _QUEUE_ID.fullmatch(queue_text) is None:
            log.error("the delayed message at %d does not say where it belongs", record.physical_offset)
            return True
        message = NewMessage(
            topic,
            int(queue_text),
            record.flag,
            record.system_flag,
            record.born_time,
            record.born_host,
            record.store_host,
            record.reconsume_times,
            0,
            record.body,
            record.properties,  # as they are; only the schedule topic reads a delay out of them
            tags_code(topic, properties, now_ms, self._delays),
            index_keys(properties),
        )
        try:
            put = self._putter.put_as_it_is(message)
        except RequestRefused as refusal:
            log.error("a delayed message of %s waits longer: %s", topic, refusal.remark)
            return False
        self.delivered_count += 1
        self._stats.put(topic, 1, put.size)
        return True
