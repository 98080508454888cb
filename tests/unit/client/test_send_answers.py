"""What answers to sends say."""

from __future__ import annotations

import msgspec
import pytest

from apogeemq.client.send_answers import send_answer
from apogeemq.errors import ProtocolError, RemoteRefused
from apogeemq.protocol.codes import ResponseCode
from apogeemq.protocol.command import Command

SOMEWHERE = "10.0.0.1:10911"


def answer(code: int, fields: bytes) -> Command:
    return Command(code, ext_json=msgspec.Raw(fields))


def test_what_an_answer_says() -> None:
    for code in (ResponseCode.SUCCESS, ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE):
        stored = send_answer(answer(code, b'{"msgId":"A,B","queueId":"3","queueOffset":"7"}'), SOMEWHERE)
        assert (stored.code, stored.offset_ids, stored.queue_id) == (code, "A,B", 3)
        assert (stored.queue_offset, stored.transaction_id) == (7, None)


def test_a_refusal_and_an_answer_that_says_nothing() -> None:
    with pytest.raises(RemoteRefused) as refused:
        send_answer(answer(ResponseCode.SYSTEM_BUSY, b"{}"), SOMEWHERE)
    assert refused.value.code == ResponseCode.SYSTEM_BUSY
    with pytest.raises(ProtocolError, match="without saying where it went"):
        send_answer(answer(ResponseCode.SUCCESS, b"{}"), SOMEWHERE)
