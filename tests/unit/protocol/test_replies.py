"""The hot answers from templates say the same as those put together field by field."""

from __future__ import annotations

from struct import pack

import pytest

from apogeemq.model.ids import offset_id
from apogeemq.protocol.codec import decode_frame
from apogeemq.protocol.command import BINARY, JSON, Command
from apogeemq.protocol.replies import SendReplies, encode_pull_reply

HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"
IPV6_HOST = bytes(15) + b"\x01\x00\x00\x2a\x9f"


def request(codec: int = JSON, opaque: int = 7) -> Command:
    return Command(310, opaque, codec=codec)


def decoded(reply: bytes) -> Command:
    assert int.from_bytes(reply[:4]) == len(reply) - 4
    return decode_frame(reply[4:])


@pytest.mark.parametrize("codec", [JSON, BINARY])
@pytest.mark.parametrize("host", [HOST, IPV6_HOST])
@pytest.mark.parametrize("key", ["7F000001AA", 'quote"back\\slash', "€", "", "a b", "%d%s", "x\n\0"])
@pytest.mark.parametrize("opaque", [0, 7, -1, 2**31 - 1])
def test_a_stored_message(codec: int, host: bytes, key: str, opaque: int) -> None:
    replies = SendReplies("DefaultRegion", True, host)
    answer = decoded(replies.stored(request(codec, opaque), 2**40 + 5, 3, 2**35, key))
    fields = {
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "msgId": offset_id(host, 2**40 + 5),
        "queueId": "3",
        "queueOffset": str(2**35),
        "transactionId": key,
    }
    if not key:
        del fields["transactionId"]
    assert (answer.code, answer.opaque, answer.remark) == (0, opaque, None)
    assert answer.is_response
    assert answer.fields() == fields
    same = decoded(replies.stored_but(request(codec, opaque), 0, [2**40 + 5], 3, 2**35, key))
    assert same.fields() == fields


@pytest.mark.parametrize("region", ["plain", '100%"\\', "é%d"])
def test_any_region(region: str) -> None:
    replies = SendReplies(region, False, HOST)
    assert decoded(replies.stored(request(), 0, 0, 0, "U")).fields()["MSG_REGION"] == region
    assert replies.fixed_fields == {"MSG_REGION": region, "TRACE_ON": "false"}


def test_what_could_not_be_promised() -> None:
    answer = decoded(SendReplies("R", True, HOST).stored_but(request(), 10, [5], 1, 2, "U"))
    assert (answer.code, answer.fields()["msgId"]) == (10, offset_id(HOST, 5))


@pytest.mark.parametrize("codec", [JSON, BINARY])
def test_a_batch_names_all_its_messages_and_no_transaction(codec: int) -> None:
    packed_offsets = pack(">qq", 5, 2**40 + 0xABCDEF)
    answer = decoded(SendReplies("R", True, HOST).stored_batch(request(codec, 9), packed_offsets, 1, 2))
    assert (answer.code, answer.opaque, answer.remark) == (0, 9, None)
    assert answer.fields() == {
        "MSG_REGION": "R",
        "TRACE_ON": "true",
        "msgId": f"{offset_id(HOST, 5)},{offset_id(HOST, 2**40 + 0xABCDEF)}",
        "queueId": "1",
        "queueOffset": "2",
    }


@pytest.mark.parametrize("codec", [JSON, BINARY])
@pytest.mark.parametrize("records", [[], [b"one"], [b"one", b"", b"three"]])
def test_a_pull(codec: int, records: list[bytes]) -> None:
    answer = decoded(encode_pull_reply(request(codec), 21, "OFFSET_TOO_SMALL", 5, 4, 2**62, 1, 2, 3, records))
    assert (answer.code, answer.opaque, answer.remark) == (21, 7, "OFFSET_TOO_SMALL")
    assert answer.fields() == {
        "nextBeginOffset": "5",
        "minOffset": "4",
        "maxOffset": str(2**62),
        "suggestWhichBrokerId": "1",
        "topicSysFlag": "2",
        "groupSysFlag": "3",
    }
    assert answer.body == b"".join(records)
