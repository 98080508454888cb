"""From the records of a pull to messages."""

from __future__ import annotations

import pytest

from apogeemq.client.consuming.incoming import ConsumedMessage, message_of, messages_of
from apogeemq.errors import ProtocolError
from apogeemq.filter.subscriptions import subscription_of
from apogeemq.model.flags import COMPRESSED, INNER_BATCH, NEED_UNWRAP
from apogeemq.model.queues import MessageQueue
from apogeemq.protocol.batch import encode_batch
from apogeemq.protocol.compression import FLAGS, compress
from apogeemq.protocol.record import decode_record
from tests.unit.client.consuming.messages import HOST, QUEUE, message, record
from tests.unit.event_loop import in_loop

RETRY_QUEUE = MessageQueue("broker-a", 0, "%RETRY%G")


def test_a_message_says_what_its_record_says() -> None:
    data = record(4, reconsume_times=3, TAGS="paid", KEYS="42 43", UNIQ_KEY="U", mine="yes")
    (got,) = messages_of(data, QUEUE, None)
    assert (got.topic, got.queue, got.queue_offset, got.body) == ("T", QUEUE, 4, b"body")
    assert (got.tags, got.keys, got.message_id, got.properties["mine"]) == ("paid", ["42", "43"], "U", "yes")
    assert (got.physical_offset, got.reconsume_times, got.flag, got.system_flag) == (1004, 3, 7, 0)
    assert (got.born_time_ms, got.store_time_ms, got.born_host, got.store_host) == (11, 22, HOST, HOST)
    assert repr(got) == "<message U of T, queue 2 offset 4>"


def test_without_a_unique_id_the_place_is_the_id() -> None:
    got = message(4)
    assert got.message_id == got.offset_id == f"{HOST.hex()}{1004:016x}".upper()
    assert (got.tags, got.keys, got.properties) == ("", [], {})


@pytest.mark.parametrize("way", FLAGS)
def test_compressed_bodies_come_as_they_were_sent(way: str) -> None:
    body = b"again " * 1000
    packed = record(body=compress(body, way), system_flag=COMPRESSED | FLAGS[way] | 4)
    (got,) = messages_of(packed, QUEUE, None)
    assert got.body == body
    assert got.system_flag == FLAGS[way] | 4


def test_a_body_that_cannot_be_unpacked_comes_as_it_is_and_stops_nothing() -> None:
    data = record(0, b"not zlib", system_flag=COMPRESSED) + record(1)
    broken, good = messages_of(data, QUEUE, None)
    assert (broken.body, broken.system_flag, good.body) == (b"not zlib", COMPRESSED, b"body")


def test_only_the_tags_themselves_count() -> None:
    """ "Aa" and "BB" have one hash: a broker lets both through."""
    data = record(0, TAGS="Aa") + record(1, TAGS="BB") + record(2)
    assert [got.queue_offset for got in messages_of(data, QUEUE, subscription_of("T", "BB || x"))] == [1]
    assert len(messages_of(data, QUEUE, subscription_of("T", "*"))) == 3


def batch(offset: int, *tags: str, way: str | None = None, flags: int = INNER_BATCH | NEED_UNWRAP) -> bytes:
    """A batch that its broker keeps as one record, as topics with `queue.type=BatchCQ` do."""
    inner = [(number, b"%d" % number, f"TAGS\x01{tag}\x02".encode()) for number, tag in enumerate(tags)]
    body = encode_batch(inner)
    if way is None:
        return record(offset, body, system_flag=flags, INNER_NUM=str(len(tags)))
    return record(offset, compress(body, way), system_flag=flags | COMPRESSED | FLAGS[way], INNER_NUM=str(len(tags)))


@pytest.mark.parametrize("way", [None, *FLAGS])
def test_a_batch_in_one_record_is_unwrapped(way: str | None) -> None:
    data = record(4) + batch(5, "a", "b", "a", way=way) + record(8)
    got = messages_of(data, QUEUE, None)
    assert [each.queue_offset for each in got] == [4, 5, 6, 7, 8]
    assert [(each.body, each.tags, each.flag) for each in got[1:4]] == [(b"0", "a", 0), (b"1", "b", 1), (b"2", "a", 2)]
    assert {each.physical_offset for each in got[1:4]} == {1005}
    assert {each.store_time_ms for each in got} == {22}


def test_tags_of_the_messages_in_a_batch_count() -> None:
    got = messages_of(batch(5, "a", "b", "a"), QUEUE, subscription_of("T", "a"))
    assert [each.queue_offset for each in got] == [5, 7]


def test_a_pull_from_within_a_batch_gets_the_rest_of_it() -> None:
    assert [each.queue_offset for each in messages_of(batch(5, "a", "b"), QUEUE, None, first_offset=6)] == [6]


def test_a_batch_that_is_none_comes_as_it_is() -> None:
    for data in (
        record(5, b"not a batch", system_flag=INNER_BATCH | NEED_UNWRAP),
        batch(5, "a", "b", flags=INNER_BATCH),  # not to be unwrapped
    ):
        (got,) = messages_of(data, QUEUE, None)
        assert got.queue_offset == 5


def test_a_message_that_comes_again_has_its_first_topic() -> None:
    assert message_of(decode_record(record(RETRY_TOPIC="T")), RETRY_QUEUE).topic == "T"
    assert message_of(decode_record(record()), RETRY_QUEUE).topic == "%RETRY%G"
    assert message_of(decode_record(record(RETRY_TOPIC="other")), QUEUE).topic == "T"


def test_programs_see_no_namespace() -> None:
    queue = MessageQueue("broker-a", 0, "NS%T")
    assert message_of(decode_record(record()), queue, "NS").topic == "T"
    assert message_of(decode_record(record(RETRY_TOPIC="NS%T")), MessageQueue("b", 0, "%RETRY%NS%G"), "NS").topic == "T"


def test_cut_off_at_every_byte() -> None:
    data = record(TAGS="x")
    for end in range(1, len(data)):
        with pytest.raises(ProtocolError):
            messages_of(data[:end], QUEUE, None)
    assert messages_of(b"", QUEUE, None) == []


@in_loop
async def test_a_message_is_settled_once() -> None:
    settled: list[int | None] = []

    async def settle(_: ConsumedMessage, delay_level: int | None) -> None:
        settled.append(delay_level)

    first, second = message(0), message(1)
    assert first.is_settled
    for each in (first, second):
        each.settled_by(settle)
    await first.ack()
    await first.ack()
    await first.retry()
    await second.retry(3)
    await second.ack()
    assert settled == [None, 3]
    assert [each.is_settled for each in (first, second)] == [True, True]
