"""What a Java 5.5.0 producer and push consumer send to a broker, ready-encoded.

`tests/golden/test_benchmark_broker_frames.py` holds the form against frames of the real client.
"""

from __future__ import annotations

import json
import os
import struct
import time
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks import wire

SEND_V2 = 310
SEND_BATCH = 320
PULL = 11
MAX_OFFSET = 30
HEARTBEAT = 34

PRODUCERS = "bench-producers"
CONSUMERS = "bench-consumers"
BROKER = "broker-a"
QUEUES = 8
PULL_COUNT = 32
SUBSCRIPTION_VERSION = 1_700_000_000_000
FOUND, NOT_FOUND = 0, 19

_INNER = struct.Struct(">iiiii")
_RECORD_BODY = 88
"""Where the body begins in a record whose hosts are IPv4 addresses."""


def topic_name(index: int) -> str:
    return f"bench-topic-{index:05d}"


class Key(NamedTuple):
    """One message: which, where to, how large. The number makes its unique key."""

    number: int
    topic: str
    queue: int
    size: int


def spread(topics: int, *, first: int, size: int, queues: int = QUEUES) -> Iterator[Key]:
    """Messages that go round all topics, and round the queues of each."""
    number = first
    while True:
        place = number % (topics * queues)
        yield Key(number, topic_name(place % topics), place // topics, size)
        number += 1


class Encoder:
    """Makes frames whose unique keys no other encoder of this machine makes. `keyed`: with keys of the user's, too,
    all of the same length unless they are `varied`."""

    def __init__(self, *, keyed: bool = False, varied: bool = False) -> None:
        self._keyed = keyed
        self._varied = varied
        self._prefix = f"7F000001{os.getpid() & 0xFFFF:04X}60E53B93"
        self._time = time.time_ns() // 1_000_000
        self._opaque = wire.FIRST_OPAQUE

    def send(self, key: Key) -> bytes:
        """One message, as `DefaultMQProducer.send` puts it on the wire."""
        return self._frame(SEND_V2, key, self._properties(key.number), body_of(key))

    def batch(self, keys: list[Key]) -> bytes:
        """All of them to the first one's topic and queue, as `DefaultMQProducer.send(Collection)` does."""
        inner = bytearray()
        for key in keys:
            body, properties = body_of(key), self._properties(key.number).encode()
            inner += _INNER.pack(_INNER.size + len(body) + 2 + len(properties), 0, 0, 0, len(body))
            inner += body + struct.pack(">h", len(properties)) + properties
        outer = f"UNIQ_KEY\x01{self.unique_key(keys[0].number)}\x02WAIT\x01true\x02"
        return self._frame(SEND_BATCH, keys[0], outer, bytes(inner), batch="true")

    def unique_key(self, number: int) -> str:
        return f"{self._prefix}{(self._time + number // 65_536) & 0xFFFFFFFF:08X}{number % 65_536:04X}"

    def _properties(self, number: int) -> str:
        width = 8 + number % 9 if self._varied else 8
        keys = f"KEYS\x01key{number:0{width}d}\x02" if self._keyed else ""
        return f"{keys}UNIQ_KEY\x01{self.unique_key(number)}\x02WAIT\x01true\x02TAGS\x01TagA\x02"

    def _frame(self, code: int, key: Key, properties: str, body: bytes, *, batch: str = "false") -> bytes:
        fields = {
            "a": PRODUCERS,
            "b": key.topic,
            "c": "TBW102",
            "d": str(QUEUES),
            "e": str(key.queue),
            "f": "0",
            "g": str(self._time),
            "h": "0",
            "i": properties,
            "j": "0",
            "k": "false",
            "m": batch,
            "n": BROKER,
        }
        self._opaque += 1
        return wire.encode(code, fields, opaque=self._opaque, body=body)


def body_of(key: Key) -> bytes:
    """Its number first, so that no two bodies are the same."""
    return struct.pack(">q", key.number).ljust(key.size, b"b")[: key.size]


def pull_frame(topic: str, queue: int, offset: int, *, opaque: int, group: str = CONSUMERS) -> bytes:
    """What a push consumer asks, again and again; held for 15 s when there is nothing."""
    fields = {
        "queueId": str(queue),
        "maxMsgBytes": "262144",
        "maxMsgNums": str(PULL_COUNT),
        "sysFlag": "2",
        "suspendTimeoutMillis": "15000",
        "commitOffset": "0",
        "bname": BROKER,
        "topic": topic,
        "queueOffset": str(offset),
        "expressionType": "TAG",
        "subVersion": str(SUBSCRIPTION_VERSION),
        "consumerGroup": group,
    }
    return wire.encode(PULL, fields, opaque=opaque)


def heartbeat_frame(topic: str, *, client_id: str, group: str = CONSUMERS) -> bytes:
    """A push consumer that reads all of `topic`; without it no broker serves its pulls."""
    subscriptions = [
        {
            "classFilterMode": False,
            "codeSet": [],
            "expressionType": "TAG",
            "subString": "*",
            "subVersion": SUBSCRIPTION_VERSION,
            "tagsSet": [],
            "topic": name,
        }
        for name in (topic, f"%RETRY%{group}")
    ]
    consumer = {
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "consumeType": "CONSUME_PASSIVELY",
        "groupName": group,
        "messageModel": "CLUSTERING",
        "subscriptionDataSet": subscriptions,
        "unitMode": False,
    }
    body = {
        "clientID": client_id,
        "consumerDataSet": [consumer],
        "heartbeatFingerprint": 0,
        "producerDataSet": [{"groupName": "CLIENT_INNER_PRODUCER"}],
        "withoutSub": False,
    }
    text = json.dumps(body, separators=(",", ":")).encode()
    return wire.encode(HEARTBEAT, {}, opaque=1, body=text)


def max_offset_frame(topic: str, queue: int, *, opaque: int = 1) -> bytes:
    return wire.encode(MAX_OFFSET, {"topic": topic, "queueId": str(queue)}, opaque=opaque)


def bodies_of(records: bytes) -> Iterator[bytes]:
    """The bodies in a pull answer; every body is at least eight bytes, and only those are given."""
    position = 0
    while position < len(records):
        yield records[position + _RECORD_BODY : position + _RECORD_BODY + 8]
        position += int.from_bytes(records[position : position + 4], "big")
