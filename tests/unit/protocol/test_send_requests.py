"""Frames of sends from templates: the same as those of the general encoder."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apogeemq.protocol.codec import decode_frame, encode_request
from apogeemq.protocol.command import FLAG_ONE_WAY
from apogeemq.protocol.fields import write_fields
from apogeemq.protocol.headers.broker import SendMessage
from apogeemq.protocol.send_requests import encode_one_way_send, encode_send, send_code

TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)


def header(**changed: object) -> SendMessage:
    given = SendMessage(
        topic="T",
        queue_id=3,
        system_flag=1,
        born_time=1_700_000_000_000,
        flag=-5,
        producer_group="P",
        default_topic="TBW102",
        default_queue_nums=4,
        properties="TAGS\x01paid\x02",
        reconsume_times=0,
    )
    return msgspec.structs.replace(given, **changed)


@given(
    topic=TEXTS,
    group=TEXTS,
    default_topic=TEXTS,
    properties=TEXTS,
    broker=st.none() | TEXTS,
    is_batch=st.booleans(),
    body=st.binary(),
)
def test_a_frame_is_that_of_the_general_encoder(
    topic: str, group: str, default_topic: str, properties: str, broker: str | None, is_batch: bool, body: bytes
) -> None:
    sent = header(
        topic=topic,
        producer_group=group,
        default_topic=default_topic,
        properties=properties,
        broker_name=broker,
        is_batch=is_batch,
    )
    fields = dict(sorted(write_fields(sent).items()))
    assert encode_send(sent, body, 7) == encode_request(send_code(sent), 7, fields, body)
    assert encode_one_way_send(sent, body, 7) == encode_request(send_code(sent), 7, fields, body, one_way=True)


def test_a_percent_sign_is_only_a_percent_sign() -> None:
    command = decode_frame(encode_one_way_send(header(topic="%RETRY%P", producer_group="100%d"), b"body", 9)[4:])
    assert (command.fields()["b"], command.fields()["a"]) == ("%RETRY%P", "100%d")
    assert (command.flag, command.opaque, command.body) == (FLAG_ONE_WAY, 9, b"body")


def test_what_fits_no_frame_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        encode_send(header(properties="x" * 2**24), b"", 1)
