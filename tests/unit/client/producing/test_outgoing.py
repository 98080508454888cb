"""What a broker gets of a message, and what is refused before it is asked."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from apogeemq.client.options import ProducerOptions
from apogeemq.client.producing.gathered import gathered
from apogeemq.client.producing.outgoing import Outgoing, check_batch, may_be_batched, prepared, prepared_batch
from apogeemq.errors import MessageIllegal
from apogeemq.model.flags import COMPRESSED
from apogeemq.model.ids import UniqueIdRange
from apogeemq.model.messages import Message
from apogeemq.model.properties import decode_properties
from apogeemq.protocol.batch import decode_batch
from apogeemq.protocol.compression import FLAGS, decompress

OPTIONS = ProducerOptions()


def ready(message: Message, options: ProducerOptions = OPTIONS) -> Outgoing:
    return prepared(message, "P", options, "UNIQUE", 5)


def batch_of(messages: list[Message], options: ProducerOptions) -> Outgoing:
    check_batch(messages, options)
    return prepared_batch(gathered(messages), "P", options, UniqueIdRange("U", 1, len(messages)), 5)


def properties(outgoing: Outgoing) -> dict[str, str]:
    return decode_properties(outgoing.header.properties or "")


def test_the_header() -> None:
    outgoing = ready(Message("T", b"body", flag=3))
    header = outgoing.header
    assert (outgoing.topic, outgoing.body, outgoing.unique_id, outgoing.is_batch) == ("T", b"body", "UNIQUE", False)
    assert (header.topic, header.producer_group, header.born_time, header.flag) == ("T", "P", 5, 3)
    assert (header.default_topic, header.default_queue_nums, header.system_flag) == ("TBW102", 4, 0)
    assert (header.reconsume_times, header.unit_mode, header.is_batch) == (0, False, False)


def test_the_properties() -> None:
    message = Message("T", b"b", "paid", ["42", "43"], {"mine": "yes"}, "user-1", 3, waits_for_store=False)
    assert properties(ready(message)) == {
        "mine": "yes",
        "UNIQ_KEY": "UNIQUE",
        "WAIT": "false",
        "TAGS": "paid",
        "KEYS": "42 43",
        "DELAY": "3",
        "__SHARDINGKEY": "user-1",
    }
    assert properties(ready(Message("T", b"b"))) == {"UNIQ_KEY": "UNIQUE", "WAIT": "true"}


def test_the_namespace_travels_along() -> None:
    single = prepared(Message("NS%T", b"b"), "NS%P", OPTIONS, "U", 5, "NS")
    batch = prepared_batch(gathered([Message("NS%T", b"b")]), "NS%P", OPTIONS, UniqueIdRange("U", 1, 1), 5, "NS")
    assert [properties(outgoing)["INSTANCE_ID"] for outgoing in (single, batch)] == ["NS", "NS"]


def test_one_key_need_not_be_a_list() -> None:
    assert properties(ready(Message("T", b"b", keys="42")))["KEYS"] == "42"


@pytest.mark.parametrize("body", [b"bytes", bytearray(b"bytes"), memoryview(b"bytes")])
def test_bodies_of_any_kind_of_bytes(body: Any) -> None:
    assert ready(Message("T", body)).body == b"bytes"
    batch = prepared_batch(gathered([Message("T", body)]), "P", OPTIONS, UniqueIdRange("U", 1, 1), 5)
    assert decode_batch(batch.body)[0][1] == b"bytes"


# -- compression ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", FLAGS)
def test_large_bodies_are_compressed(way: str) -> None:
    body = bytes(4096)
    outgoing = ready(Message("T", body), ProducerOptions(compression=way))
    assert outgoing.header.system_flag == COMPRESSED | FLAGS[way]
    assert decompress(outgoing.body, outgoing.header.system_flag) == body


def test_what_is_smaller_or_becomes_larger_is_not() -> None:
    noise = b"".join(zlib.crc32(bytes((number % 256, number // 256))).to_bytes(4) for number in range(1100))
    for body in (bytes(4095), noise):
        outgoing = ready(Message("T", body))
        assert (outgoing.body, outgoing.header.system_flag) == (body, 0)
    assert ready(Message("T", bytes(9000)), ProducerOptions(compress_above=0)).body == bytes(9000)


# -- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (Message("", b"b"), "blank"),
        (Message("with space", b"b"), "illegal characters"),
        (Message("T" * 128, b"b"), "longer than"),
        (Message("SCHEDULE_TOPIC_XXXX", b"b"), "only brokers send"),
        (Message("T", "text"), "str, not bytes"),  # type: ignore[arg-type]
        (Message("T", b""), "empty"),
        (Message("T", bytes(11)), "11 bytes, more than 10"),
        (Message("T", b"b", properties={"TAGS": "x"}), "system's own"),
        (Message("T", b"b", properties={"UNIQ_KEY": "x"}), "system's own"),
        (Message("T", b"b", properties={"": "x"}), "needs a name and a value"),
        (Message("T", b"b", properties={"x": ""}), "needs a name and a value"),
        (Message("T", b"b", properties={"x": 3}), "is text"),  # type: ignore[dict-item]
        (Message("T", b"b", properties={"x": "a\x01b"}), "separates properties"),
        (Message("T", b"b", properties={"a\x02": "x"}), "separates properties"),
        (Message("T", b"b", tags="a\x02"), "separates properties"),
        (Message("T", b"b", keys=["a\x01"]), "separates properties"),
        (Message("T", b"b", sharding_key="\x01"), "separates properties"),
        (Message("T", b"b", tags="\ud800"), "UTF-8"),
        (Message("T", b"b", properties={"x": "é" * 17_000}), "more than 32767"),
        (Message("T", b"b", delay_level=-1), "out of range"),
        (Message("T", b"b", flag=2**31), "out of range"),
    ],
)
def test_what_no_broker_would_take_is_refused(message: Message, why: str) -> None:
    options = ProducerOptions(max_message_size=10)
    with pytest.raises(MessageIllegal, match=why):
        ready(message, options)
    with pytest.raises(MessageIllegal, match=why):
        batch_of([Message(message.topic, b"ok"), message], options)


# -- batches -------------------------------------------------------------------------------------------------


def test_a_batch_holds_its_messages() -> None:
    messages = [Message("T", b"one", "a", flag=1), Message("T", b"two", keys=["k"])]
    batch = prepared_batch(gathered(messages), "P", OPTIONS, UniqueIdRange("U", 1, 2), 5)
    assert batch.is_batch and batch.header.is_batch
    assert properties(batch) == {"WAIT": "true"}
    one, two = decode_batch(batch.body)
    assert (one[0], one[1], decode_properties(one[2].decode())) == (
        1,
        b"one",
        {"UNIQ_KEY": "U0001", "WAIT": "true", "TAGS": "a"},
    )
    assert (two[1], decode_properties(two[2].decode())["KEYS"]) == (b"two", "k")


def test_batches_are_not_compressed() -> None:
    batch = prepared_batch(gathered([Message("T", bytes(9000))]), "P", OPTIONS, UniqueIdRange("U", 1, 1), 5)
    assert batch.header.system_flag == 0
    assert decode_batch(batch.body)[0][1] == bytes(9000)


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([], "at least one"),
        ([Message("T", b"a"), Message("U", b"b")], "for one topic"),
        ([Message("T", b"a", delay_level=1)], "cannot be delayed"),
        ([Message("%RETRY%g", b"a")], "retry topic"),
        ([Message("T", b"a"), Message("T", b"b", waits_for_store=False)], "all or none"),
        ([Message("T", bytes(3000))] * 2, "is larger than 5000"),
    ],
)
def test_what_cannot_be_a_batch(messages: list[Message], why: str) -> None:
    with pytest.raises(MessageIllegal, match=why):
        batch_of(messages, ProducerOptions(max_message_size=5000))


@pytest.mark.parametrize(
    ("message", "may"),
    [
        (Message("T", b"a"), True),
        (Message("T", b"a", "tag", ["k"], {"p": "v"}), True),
        (Message("T", b"a", sharding_key="s"), False),
        (Message("T", b"a", delay_level=1), False),
        (Message("%RETRY%g", b"a"), False),
        (Message("T", bytes(32 * 1024)), False),
        (Message("T", b"a", properties={"p": "v" * 20_000}), False),
    ],
)
def test_which_messages_are_put_together(message: Message, may: bool) -> None:
    assert may_be_batched(message, OPTIONS) is may
