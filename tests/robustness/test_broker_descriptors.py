"""Many more queues than descriptors: each is written, read and found again after a kill."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from apogeemq.model.topics import TopicConfig
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.record import decode_record
from tests.peers.ours import Broker
from tests.robustness.broker_attacked import SEND_FIELDS, pull_request
from tests.robustness.raw_peer import RawPeer, request

IS_SOAK = os.environ.get("APOGEE_SOAK") == "1"
TOPICS = 5_000 if IS_SOAK else 300
QUEUES = 8
DESCRIPTORS = 1_024 if IS_SOAK else 256
MAPPED_FILES = 400 if IS_SOAK else 100
ROUNDS = 2
KEYS = [(f"topic-{number}", queue_id) for number in range(TOPICS) for queue_id in range(QUEUES)]


class PoorBroker(Broker):
    """May have few descriptors, from its start on."""

    def command(self) -> Sequence[str]:
        return ("sh", "-c", f'ulimit -n {DESCRIPTORS} && exec "$@"', "sh", *super().command())

    @property
    def descriptor_count(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[PoorBroker]:
    with PoorBroker("", work_dir=tmp_path, properties={"maxMappedQueueFiles": MAPPED_FILES}) as running:
        yield running


def body_of(topic: str, queue_id: int, turn: int) -> bytes:
    return f"{topic} {queue_id} {turn}".encode()


def make_topics(peer: RawPeer) -> None:
    """All at once: each alone would be made durable for itself."""
    names = sorted({topic for topic, _ in KEYS})
    made = [TopicConfig(topic_name=name, read_queue_nums=QUEUES, write_queue_nums=QUEUES) for name in names]
    body = msgspec.json.encode({"topicConfigList": made})
    answer = peer.ask(request(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, {}, body))
    assert answer.code == ResponseCode.SUCCESS, answer.remark


def send_to_all(peer: RawPeer, turn: int) -> None:
    for start in range(0, len(KEYS), QUEUES):
        part = KEYS[start : start + QUEUES]
        for topic, queue_id in part:
            fields = {**SEND_FIELDS, "b": topic, "e": str(queue_id)}
            peer.send(request(RequestCode.SEND_MESSAGE_V2, fields, body_of(topic, queue_id, turn), opaque=queue_id))
        for _ in part:
            answer = peer.receive()
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            assert answer.fields()["queueOffset"] == str(turn)


def check_all(peer: RawPeer) -> None:
    for topic, queue_id in KEYS:
        answer = peer.ask(pull_request(0, queue_id, topic=topic))
        assert answer.code == ResponseCode.SUCCESS, (topic, queue_id, answer.remark)
        bodies, position = [], 0
        while position < len(answer.body):
            record = decode_record(answer.body, position)
            bodies.append(record.body)
            position += record.size
        assert bodies == [body_of(topic, queue_id, turn) for turn in range(ROUNDS)]


def test_queues_are_not_limited_by_descriptors(broker: PoorBroker) -> None:
    assert len(KEYS) > 4 * DESCRIPTORS
    for is_first in (True, False):
        with RawPeer(broker.port) as peer:
            if is_first:
                make_topics(peer)
                for turn in range(ROUNDS):
                    send_to_all(peer, turn)
            check_all(peer)
            assert broker.descriptor_count < DESCRIPTORS
        assert "Too many open files" not in broker.output()
        assert "Traceback" not in broker.output()
        if is_first:
            broker.kill()
            broker.start()
    assert broker.stop() == 0
