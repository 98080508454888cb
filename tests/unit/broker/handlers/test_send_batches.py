"""Batches: stored one by one as they are, or refused whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from apogeemq.model.ids import offset_id
from apogeemq.model.properties import encode_properties
from apogeemq.protocol.codes import RequestCode, ResponseCode
from tests.unit.broker.handlers.members import serving
from tests.unit.broker.handlers.traffic import (
    FIXED,
    ask_batch,
    batch,
    bodies,
    long_fields,
    pull,
    send,
    send_fields,
    stored,
)
from tests.unit.event_loop import in_loop

V2, BATCH = RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE
ILLEGAL = ResponseCode.MESSAGE_ILLEGAL


@pytest.mark.parametrize("code", [BATCH, V2])
@in_loop
async def test_the_messages_of_a_batch_are_stored_one_by_one_as_they_are(tmp_path: Path, code: int) -> None:
    async with serving(tmp_path) as running:
        member = running.member("p1")
        own = b"TAGS\x01A\x02KEYS\x01k9"
        await send(member, e="1")
        fields = send_fields(m="true", e="1", h="9", i=encode_properties({"WAIT": "false"}))
        answer = await member.ok(code, batch(b"one", b"", b"three", properties=own), **fields)
        first, *parts = stored(running.state, queue_id=1)
        assert [part.body for part in parts] == [b"one", b"", b"three"]
        assert [part.flag for part in parts] == [0, 1, 2]
        assert {part.properties for part in parts} == {own}
        assert [part.queue_offset for part in parts] == [1, 2, 3]
        assert answer.fields() == {
            **FIXED,
            "msgId": ",".join(offset_id(running.state.store_host, part.physical_offset) for part in parts),
            "queueId": "1",
            "queueOffset": "1",
        }
        assert bodies(await pull(member, 1, queue_id=1, subscription="A")) == [b"one", b"", b"three"]
        assert len(running.state.store.find_by_key("T", "k9", 0, 2**62, 9)) == 3
        assert first.body == b"hello"


@in_loop
async def test_a_batch_of_the_first_version(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        await running.member("p1").ok(RequestCode.SEND_MESSAGE, batch(b"one", b"two"), **long_fields(batch="true"))
        assert [record.body for record in stored(running.state)] == [b"one", b"two"]


ONE = batch(b"one")
LYING_BATCHES = {
    "nothing": b"",
    "half a head": ONE[:10],
    "a cut off message": ONE + ONE[:-1],
    "a message that says it is longer": (len(ONE) + 1).to_bytes(4) + ONE[4:],
    "a message that says it is shorter": (len(ONE) - 1).to_bytes(4) + ONE[4:],
    "a message that says it is nothing": bytes(4) + ONE[4:],
    "a negative size": b"\xff\xff\xff\xff" + ONE[4:],
    "a body longer than all": ONE[:16] + b"\x7f\xff\xff\xff" + ONE[20:],
    "a negative body": ONE[:16] + b"\xff\xff\xff\xff" + ONE[20:],
    "properties longer than all": ONE[:-2] + b"\x7f\xff",
    "negative properties": ONE[:-2] + b"\xff\xff",
    "bytes after the last": ONE + b"\0",
    "properties that are no text": batch(b"one", properties=b"\xff\xfe"),
}


@pytest.mark.parametrize("body", LYING_BATCHES.values(), ids=LYING_BATCHES.keys())
@in_loop
async def test_a_batch_that_lies_is_refused_whole(tmp_path: Path, body: bytes) -> None:
    async with serving(tmp_path) as running:
        member = running.member("p1")
        await send(member)
        before = running.state.store.log.max_offset
        answer = await ask_batch(member, body)
        assert answer.code == ILLEGAL
        assert answer.remark
        assert answer.fields() == FIXED
        assert running.state.store.log.max_offset == before
        await send(member)


@in_loop
async def test_batches_that_are_not_taken(tmp_path: Path) -> None:
    async with serving(tmp_path, maxMessageSize="1000") as running:
        member = running.member("p1")
        await send(member)
        before = running.state.store.log.max_offset
        delayed = await ask_batch(member, ONE, i=encode_properties({"DELAY": "3"}))
        assert (delayed.code, delayed.remark) == (ILLEGAL, "a batch cannot be delayed")
        retried = await ask_batch(member, ONE, "%RETRY%G")
        assert (retried.code, retried.remark) == (
            ILLEGAL,
            "batch request does not support retry group %RETRY%G",
        )
        large = await ask_batch(member, batch(bytes(600), bytes(600)))
        assert large.code == ILLEGAL
        assert running.state.store.log.max_offset == before
