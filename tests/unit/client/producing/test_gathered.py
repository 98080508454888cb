"""Messages that share a request: of most only the body is kept."""

from __future__ import annotations

from typing import Any

import pytest

from apogeemq.client.options import ProducerOptions
from apogeemq.client.producing.gathered import Gathered, gathered, is_plain
from apogeemq.client.producing.outgoing import prepared_batch
from apogeemq.model.ids import UniqueIdRange
from apogeemq.model.messages import Message
from apogeemq.model.properties import decode_properties
from apogeemq.protocol.batch import decode_batch

PLAIN = Message("T", b"plain", "tags")


def sent(messages: Gathered) -> list[tuple[int, bytes, dict[str, str]]]:
    batch = prepared_batch(messages, "P", ProducerOptions(), UniqueIdRange("U", 0, len(messages)), 5)
    return [(flag, body, decode_properties(text.decode())) for flag, body, text in decode_batch(batch.body)]


def test_of_plain_messages_only_the_bodies_are_kept() -> None:
    together = gathered([PLAIN, Message("T", b"two", "tags")])
    assert (together.bodies, together.others, together.size) == ([b"plain", b"two"], {}, 8)
    expected = {"WAIT": "true", "TAGS": "tags"}
    assert sent(together) == [
        (0, b"plain", {"UNIQ_KEY": "U0000", **expected}),
        (0, b"two", {"UNIQ_KEY": "U0001", **expected}),
    ]


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({"tags": "others"}, {"TAGS": "others"}),
        ({"tags": ""}, {}),
        ({"keys": ["k"]}, {"TAGS": "tags", "KEYS": "k"}),
        ({"properties": {"a": "b"}}, {"TAGS": "tags", "a": "b"}),
    ],
)
def test_what_has_more_to_it_is_kept_whole_wherever_it_stands(more: dict[str, Any], found: dict[str, str]) -> None:
    other = Message(**{"topic": "T", "body": b"other", "tags": "tags", **more})
    for place in range(3):
        messages = [PLAIN, PLAIN]
        messages.insert(place, other)
        for number, (_, body, properties) in enumerate(sent(gathered(messages))):
            id_and_wait = {"UNIQ_KEY": f"U{number:04}", "WAIT": "true"}
            assert (body, properties) == (
                (b"other", {**id_and_wait, **found}) if number == place else (b"plain", {**id_and_wait, "TAGS": "tags"})
            )


def test_flags_are_kept() -> None:
    assert [flag for flag, _, _ in sent(gathered([PLAIN, Message("T", b"b", "tags", flag=7), PLAIN]))] == [0, 7, 0]


def test_a_body_that_changes_afterwards_is_as_it_was() -> None:
    body: Any = bytearray(b"before")
    together = gathered([Message("T", body)])
    body[:] = b"after!"
    assert together.bodies == [b"before"]


@pytest.mark.parametrize(
    "more", [{"flag": 1}, {"delay_level": 1}, {"keys": "k"}, {"properties": {"a": "b"}}, {"sharding_key": "s"}]
)
def test_what_is_plain(more: dict[str, Any]) -> None:
    assert is_plain(PLAIN) and is_plain(Message("T", b"b"))
    assert not is_plain(Message("T", b"b", **more))
