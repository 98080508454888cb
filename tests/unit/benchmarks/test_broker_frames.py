"""The messages of a benchmark go where they should, and no two are the same."""

from __future__ import annotations

import itertools
from collections import Counter

from benchmarks.broker import frames
from benchmarks.broker.frames import Encoder, spread


def test_messages_go_round_all_queues_of_all_topics() -> None:
    places = Counter((key.topic, key.queue) for key in itertools.islice(spread(5, first=17, size=8), 400))
    assert len(places) == 5 * frames.QUEUES
    assert set(places.values()) == {10}


def test_unique_keys_differ() -> None:
    encoder = Encoder()
    keys = {encoder.unique_key(number) for number in range(200_000)}
    assert len(keys) == 200_000
    assert {len(key) for key in keys} == {32}


def test_bodies_are_found_in_records() -> None:
    def record(body: bytes) -> bytes:
        size = 88 + len(body) + 20
        return size.to_bytes(4, "big") + bytes(84) + body + bytes(20)

    bodies = [frames.body_of(frames.Key(number, "t", 0, 16)) for number in (1, 2, 3)]
    assert list(frames.bodies_of(b"".join(map(record, bodies)))) == [body[:8] for body in bodies]
