"""A store under load, with sync flush: what was sent, what was acknowledged, and whether a store still has it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from random import Random
from threading import Lock
from typing import NamedTuple

from apogeemq.errors import ProtocolError
from apogeemq.protocol.record import Record, decode_record, is_intact
from apogeemq.store.config import StoreConfig
from apogeemq.store.message_store import MessageStore
from apogeemq.store.opening import OpenStore
from apogeemq.store.results import GetStatus, Put
from tests.unit.store.conftest import message, tags_code_of

WAIT_SECONDS = 60
QUEUES = 3
TOPICS = ("T", "another-topic")


def small_store(root: Path) -> StoreConfig:
    """Files of a few kilobytes, so that a round goes through many."""
    return StoreConfig(
        store_path_root_dir=str(root),
        mapped_file_size_commit_log=32 * 1024,
        mapped_file_size_consume_queue=60 * 20,
        max_hash_slot_num=50,
        max_index_num=400,
        flush_interval_commit_log=20,
        flush_interval_consume_queue=5,
    )


class Sent(NamedTuple):
    number: int
    topic: str
    queue_id: int
    body: bytes
    put: Put

    @property
    def end(self) -> int:
        return self.put.physical_offset + self.put.size


class Sender:
    """Puts messages and says which of them are acknowledged: those before the offset the flush thread last told of."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._lock = Lock()
        self.sent: list[Sent] = []
        self._acknowledged: list[Sent] = []
        self._waiting: list[Sent] = []
        self._flushed: Queue[int] = Queue()
        self.failures: Queue[OSError] = Queue()
        self._time_ms = 1_700_000_000_000

    @contextmanager
    def opened(self, root: Path) -> Iterator[OpenStore]:
        opened = OpenStore.open(small_store(root), tags_code_of, self.flushed, self.failures.put)
        try:
            yield opened
        finally:
            opened.close()

    def flushed(self, offset: int) -> None:
        with self._lock:
            kept = [sent for sent in self._waiting if sent.end <= offset]
            del self._waiting[: len(kept)]
            self._acknowledged += kept
        self._flushed.put(offset)

    @property
    def acknowledged(self) -> list[Sent]:
        with self._lock:
            return list(self._acknowledged)

    def send(self, opened: OpenStore, count: int) -> None:
        for _ in range(count):
            number = len(self.sent)
            topic, queue_id = self._random.choice(TOPICS), self._random.randrange(QUEUES)
            body = b"%d:" % number + self._random.randbytes(self._random.choice((5, 100, 700, 3000, 18_000)))
            self._time_ms += self._random.choice((0, 0, 1, 700))
            with self._lock:  # the flush thread may know of it before we do
                is_gathered = self._random.random() < 0.5
                put = opened.store.put(
                    message(topic, queue_id, number, body=body), self._time_ms, is_gathered=is_gathered
                )
                self.sent.append(Sent(number, topic, queue_id, body, put))
                self._waiting.append(self.sent[-1])
            if self._random.random() < 0.2:
                opened.store.settle(is_for_flush=self._random.random() < 0.5)
                opened.request_flush()

    def wait_for_acknowledgements(self, opened: OpenStore) -> None:
        opened.store.settle()
        opened.request_flush()
        end = opened.store.log.max_offset
        while opened.flushed_offset < end:
            self._flushed.get(timeout=WAIT_SECONDS)

    def power_went(self, acknowledged: list[Sent]) -> None:
        """Nobody heard of what was acknowledged after these."""
        with self._lock:
            self._acknowledged = list(acknowledged)
            self._waiting.clear()


def missing(store: MessageStore, acknowledged: list[Sent]) -> list[Sent]:
    """Acknowledged messages that are not where they were, as they were, or cannot be found by key."""
    return [sent for sent in acknowledged if not _is_kept(store, sent)]


def _is_kept(store: MessageStore, sent: Sent) -> bool:
    got = store.get(sent.topic, sent.queue_id, sent.put.queue_offset, 1, 1_000_000)
    if got.status is not GetStatus.FOUND:
        return False
    try:
        record = decode_record(got.records)
    except ProtocolError:
        return False
    by_key = store.find_by_key(sent.topic, f"k{sent.number}", 0, 2**62, 50)
    return (
        record.physical_offset == sent.put.physical_offset
        and record.body == sent.body
        and is_intact(record)
        and record.physical_offset in [found.physical_offset for found in by_key]
    )


def strangers(store: MessageStore, sent: list[Sent]) -> list[Record]:
    """Messages of the queues that nobody sent, or that are not as they were sent."""
    bodies = {message.body: message for message in sent}
    found = []
    for (topic, queue_id), queue in store.queues.items():
        for offset in range(queue.min_offset, queue.max_offset):
            records = store.get(topic, queue_id, offset, 1, 1_000_000).records
            if not records:  # a message that is known to be lost, and none after it
                continue
            record = decode_record(records)
            known = bodies.get(record.body)
            if known is None or (known.topic, known.queue_id, known.put.queue_offset) != (
                topic,
                queue_id,
                record.queue_offset,
            ):
                found.append(record)
    return found
