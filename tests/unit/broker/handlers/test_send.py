"""Sends: what is taken, how it is stored and answered, and what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from apogeemq.model.flags import BORN_HOST_IPV6, STORE_HOST_IPV6
from apogeemq.model.ids import offset_id
from apogeemq.model.properties import encode_properties
from apogeemq.model.topics import FLAG_UNIT, FLAG_UNIT_SUB, MULTI_TAG, TopicConfig
from apogeemq.protocol.codec import encode_request
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import BINARY
from apogeemq.protocol.remarks import FAQ_HINT
from apogeemq.protocol.versions import V3_4_9
from tests.unit.broker.handlers.members import serving
from tests.unit.broker.handlers.traffic import (
    ADDED,
    BORN_TIME,
    FIXED,
    SOME_KEY,
    ask_batch,
    ask_send,
    batch,
    bodies,
    long_fields,
    properties_of,
    pull,
    refused_send,
    send,
    send_fields,
    stored,
)
from tests.unit.event_loop import in_loop
from tests.unit.nameserver.live import ask_as, eventually
from tests.unit.transport.live import Peer

V2, BATCH = RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE
ILLEGAL = ResponseCode.MESSAGE_ILLEGAL
INVALID = ResponseCode.INVALID_PARAMETER


# -- what is taken -------------------------------------------------------------------------------------------


@in_loop
async def test_a_message_is_stored_as_it_was_sent_and_its_place_is_answered(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = running.member("p1")
        text = encode_properties({"UNIQ_KEY": SOME_KEY, "TAGS": "A", "KEYS": "k1 k2"})
        await send(member, body=b"first")
        answer = await send(member, body="zwei €".encode(), e="2", f="259", h="7", j="3", i=text)
        [record] = stored(running.state, queue_id=2)
        assert answer.fields() == {
            **FIXED,
            "msgId": offset_id(running.state.store_host, record.physical_offset),
            "queueId": "2",
            "queueOffset": "0",
            "transactionId": SOME_KEY,
        }
        assert answer.remark is None
        [channel] = running.server.channels
        assert record.born_host == bytes((127, 0, 0, 1)) + channel.address[1].to_bytes(4)
        assert (record.topic, record.body, record.queue_id) == (b"T", "zwei €".encode(), 2)
        assert (record.flag, record.system_flag, record.born_time, record.reconsume_times) == (7, 259, BORN_TIME, 3)
        assert record.properties.decode() == text + encode_properties(ADDED)
        assert record.store_host == running.state.store_host
        [found] = [entry.body for entry in running.state.store.find_by_key("T", "k2", 0, 2**62, 9)]
        assert found == record.body


@pytest.mark.parametrize("codec", [0, BINARY])
@in_loop
async def test_both_versions_and_both_codecs_say_the_same(tmp_path: Path, codec: int) -> None:
    async with serving(tmp_path) as running:
        member = running.member("p1")
        first = await member.ask(RequestCode.SEND_MESSAGE, b"one", codec, **long_fields(queueId="1"))
        second = await member.ask(V2, b"two", codec, **send_fields(e="1"))
        assert (first.code, second.code, first.codec, second.codec) == (0, 0, codec, codec)
        fields = [answer.fields() for answer in (first, second)]
        assert [field.pop("queueOffset") for field in fields] == ["0", "1"]
        assert [field.pop("msgId") for field in fields] == [
            offset_id(running.state.store_host, record.physical_offset) for record in stored(running.state, queue_id=1)
        ]
        assert fields[0] == fields[1] == {**FIXED, "queueId": "1", "transactionId": SOME_KEY}


@in_loop
async def test_a_key_that_json_must_escape_is_answered_whole(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        key = 'a"b\\c €'
        answer = await send(running.member("p1"), i=encode_properties({"UNIQ_KEY": key}))
        assert answer.fields()["transactionId"] == key


@in_loop
async def test_one_way_sends_are_stored_and_not_answered(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        await send(running.member("p1"))
        host, _, port = running.address.rpartition(":")
        peer = Peer(*await asyncio.open_connection(host, int(port)))
        for fields in (send_fields(), send_fields(e="99"), send_fields("../x"), send_fields("New")):
            peer.send(encode_request(V2, 7, fields, b"quiet", one_way=True))
        await eventually(lambda: stored(running.state, "New"))
        await eventually(lambda: not any(channel.held_count for channel in running.server.channels))
        peer.send(encode_request(V2, 8, send_fields(), b"loud"))
        assert [answer.opaque for answer in await peer.receive()] == [8]
        assert [record.body for record in stored(running.state)] == [b"hello", b"quiet", b"loud"]
        await peer.close()


@in_loop
async def test_producers_may_leave_much_out(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = running.member("p1")
        await send(member)
        least = {name: value for name, value in send_fields().items() if name in "befgh"}
        answer = await member.ok(V2, b"little", **least)
        assert len(answer.fields()["transactionId"]) == 32
        for name in least:
            rest = {other: value for other, value in least.items() if other != name}
            code, remark = await member.refused(V2, b"less", **rest)
            assert (code, remark) == (ResponseCode.SYSTEM_ERROR, f"the header field {name} is missing")
        assert [record.body for record in stored(running.state)] == [b"hello", b"little"]


@in_loop
async def test_without_a_queue_the_broker_takes_one_of_those_written_to(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        running.state.topics.put(TopicConfig(topic_name="T", read_queue_nums=9, write_queue_nums=2), 0)
        member = running.member("p1")
        taken = {(await send(member, e="-1")).fields()["queueId"] for _ in range(40)}
        assert taken == {"0", "1"}
        # Queues that are still read but no longer written to are taken when they are asked for.
        assert (await send(member, e="8")).fields()["queueId"] == "8"


@in_loop
async def test_flags_of_addresses_are_the_brokers_to_set(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = running.member("p1")
        answer = await send(member, f=str(BORN_HOST_IPV6 | STORE_HOST_IPV6 | 1))
        [record] = stored(running.state)
        assert (record.system_flag, len(record.born_host), len(record.store_host)) == (1, 8, 8)
        assert answer.fields()["msgId"] == offset_id(record.store_host, record.physical_offset)


@in_loop
async def test_topics_with_several_tags_a_message_are_marked(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        running.state.topics.put(TopicConfig(topic_name="T", topic_filter_type=MULTI_TAG), 0)
        member = running.member("p1")
        await send(member)
        await ask_batch(member, batch(b"one"))
        assert [record.system_flag for record in stored(running.state)] == [2, 2]


# -- topics made on the way ----------------------------------------------------------------------------------


@in_loop
async def test_a_topic_is_made_through_the_default_topic(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member, topics = running.member("p1"), running.state.topics
        await send(member, "A", d="4")
        assert topics.get("A") == TopicConfig(topic_name="A", read_queue_nums=4, write_queue_nums=4, perm=6)
        await send(member, "B", d="99", k="true")
        assert topics.get("B") == TopicConfig(
            topic_name="B", read_queue_nums=8, write_queue_nums=8, perm=6, topic_sys_flag=FLAG_UNIT
        )
        await send(member, "C", c="DefaultCluster", d="99")
        assert topics.get("C") == TopicConfig(topic_name="C", read_queue_nums=16, write_queue_nums=16, perm=6)
        await send(member, "D", c="broker-a", d="99")
        assert topics.get("D") == TopicConfig(topic_name="D", read_queue_nums=1, write_queue_nums=1, perm=6)


@in_loop
async def test_a_topic_made_on_the_way_is_kept_before_the_answer(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        await send(running.member("p1"), "A")
        assert '"A"' in (tmp_path / "store" / "config" / "topics.json").read_text()


@in_loop
async def test_no_topic_is_made_when_that_is_off(tmp_path: Path) -> None:
    async with serving(tmp_path, autoCreateTopicEnable="false") as running:
        member = running.member("p1")
        assert running.state.topics.get("TBW102") is None
        for default in ("TBW102", "none", ""):
            assert await refused_send(member, "A", c=default) == (
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[A] not exist, apply first please!{FAQ_HINT}",
            )
        assert running.state.topics.get("A") is None
        await send(member, "A", c="DefaultCluster")  # another default topic is another matter


@in_loop
async def test_a_default_topic_from_before_does_not_turn_creation_on_again(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        await send(running.member("p1"), "A")
    async with serving(tmp_path, autoCreateTopicEnable="false") as running:
        assert running.state.topics.get("TBW102") is not None
        code, _ = await refused_send(running.member("p1"), "B")
        assert code == ResponseCode.TOPIC_NOT_EXIST
        await send(running.member("p1"), "A")
    async with serving(tmp_path) as running:
        await send(running.member("p1"), "B")


@in_loop
async def test_dead_letter_topics_are_made_by_the_broker_alone(tmp_path: Path) -> None:
    async with serving(tmp_path, autoCreateTopicEnable="false") as running:
        member = running.member("p1")
        assert (await refused_send(member, "%DLQ%G"))[0] == ResponseCode.TOPIC_NOT_EXIST


@pytest.mark.parametrize(("asked", "queue_id"), [("0", "0"), ("-1", "0"), ("0", "-1"), ("4", "4")])
@in_loop
async def test_a_topic_may_be_made_with_fewer_queues_than_the_send_needs(
    tmp_path: Path, asked: str, queue_id: str
) -> None:
    async with serving(tmp_path) as running:
        code, remark = await refused_send(running.member("p1"), "A", d=asked, e=queue_id)
        assert code == INVALID
        assert remark is not None
        assert remark.startswith(f"request queueId[{queue_id}] is illegal, TopicConfig [topicName=A, ")
        assert running.state.store.log.max_offset == 0
        made = running.state.topics.get("A")
        assert made is not None
        assert made.write_queue_nums == max(int(asked), 0)


# -- retry topics and dead letters ---------------------------------------------------------------------------


@in_loop
async def test_sends_to_a_retry_topic_make_group_and_topic(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member, state = running.member("p1"), running.state
        await send(member, "%RETRY%G", k="true")
        assert state.groups.get("G") is not None
        assert state.topics.topics["%RETRY%G"].read_queue_nums == 4
        assert state.topics.topics["%RETRY%G"].topic_sys_flag == FLAG_UNIT_SUB
        await send(member, "%RETRY%H", c="none")
        assert state.topics.topics["%RETRY%H"].read_queue_nums == 1


@in_loop
async def test_no_retries_for_a_group_that_cannot_be(tmp_path: Path) -> None:
    async with serving(tmp_path, autoCreateSubscriptionGroup="false") as running:
        assert await refused_send(running.member("p1"), "%RETRY%G") == (
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            f"subscription group not exist, G {FAQ_HINT}",
        )
        assert running.state.store.log.max_offset == 0


@in_loop
async def test_what_was_tried_too_often_goes_to_the_dead_letters(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member, state = running.member("p1"), running.state
        await send(member, "%RETRY%G", b"last", j="16")
        answer = await send(member, "%RETRY%G", b"dead", j="17", e="3")
        assert [record.body for record in stored(state, "%RETRY%G")] == [b"last"]
        [dead] = stored(state, "%DLQ%G")
        assert (answer.fields()["queueId"], answer.fields()["queueOffset"]) == ("0", "0")
        assert (dead.body, dead.reconsume_times) == (b"dead", 17)
        assert properties_of(dead) == {"UNIQ_KEY": SOME_KEY, **ADDED, "DELAY": "-1"}
        assert state.topics.get("%DLQ%G") == TopicConfig(
            topic_name="%DLQ%G", read_queue_nums=1, write_queue_nums=1, perm=6
        )
        await send(member, "%RETRY%G", b"dead", j="3", l="2")
        assert len(stored(state, "%DLQ%G")) == 2


@in_loop
async def test_old_producers_have_no_say_in_how_often(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        fields = send_fields("%RETRY%G", j="3", l="2")
        for version, dead_count in ((V3_4_9 - 1, 0), (V3_4_9, 1)):
            answer = await ask_as(running.address, V2, fields, b"again", version=version)
            assert answer.code == ResponseCode.SUCCESS
            assert len(stored(running.state, "%DLQ%G")) == dead_count


# -- delays --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "level"), [("1", 1), ("18", 18), ("99", 18)])
@in_loop
async def test_a_delayed_message_waits_in_the_queue_of_its_level(tmp_path: Path, asked: str, level: int) -> None:
    async with serving(tmp_path) as running:
        text = encode_properties({"UNIQ_KEY": SOME_KEY, "TAGS": "A", "DELAY": asked})
        answer = await send(running.member("p1"), e="3", i=text)
        assert (answer.fields()["queueId"], answer.fields()["queueOffset"]) == ("3", "0")
        assert stored(running.state, queue_id=3) == []
        [record] = stored(running.state, "SCHEDULE_TOPIC_XXXX", level - 1)
        where = {"REAL_TOPIC": "T", "REAL_QID": "3", "DELAY": str(level)}
        assert properties_of(record) == {"UNIQ_KEY": SOME_KEY, "TAGS": "A", **ADDED, **where}
        entry = running.state.store.queues["SCHEDULE_TOPIC_XXXX", level - 1].entry(0)
        assert entry is not None
        assert entry[2] == record.store_time + running.broker.delays.delay_ms(level)


@pytest.mark.parametrize("level", ["0", "-1"])
@in_loop
async def test_a_delay_of_nothing_is_none(tmp_path: Path, level: str) -> None:
    async with serving(tmp_path) as running:
        await send(running.member("p1"), i=encode_properties({"UNIQ_KEY": SOME_KEY, "DELAY": level}))
        [record] = stored(running.state)
        assert properties_of(record)["DELAY"] == level


@pytest.mark.parametrize("level", ["x", "1.5", " 1", "--1", "²", "٣", "1_0", "9" * 5000])
@in_loop
async def test_a_delay_that_is_no_number_is_refused(tmp_path: Path, level: str) -> None:
    async with serving(tmp_path) as running:
        member = running.member("p1")
        code, remark = await refused_send(member, i=encode_properties({"UNIQ_KEY": SOME_KEY, "DELAY": level}))
        assert code == ResponseCode.SYSTEM_ERROR
        assert remark is not None
        assert remark.startswith("the property DELAY is ")
        assert running.state.store.log.max_offset == 0


# -- batches -------------------------------------------------------------------------------------------------


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


# -- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic", "remark"),
    [
        ("", "The specified topic is blank."),
        (" ", "The specified topic is blank."),
        (
            "../../etc",
            "The specified topic: ../../etc, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
        ),
        ("t" * 128, f"The specified topic: {'t' * 128}, is longer than topic max length: 127"),
    ],
)
@in_loop
async def test_names_no_topic_can_have(tmp_path: Path, topic: str, remark: str) -> None:
    async with serving(tmp_path) as running:
        known = set(running.state.topics.topics)
        assert await refused_send(running.member("p1"), topic) == (INVALID, remark)
        assert set(running.state.topics.topics) == known


@pytest.mark.parametrize(
    "topic",
    [
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    ],
)
@in_loop
async def test_topics_only_the_broker_writes_to(tmp_path: Path, topic: str) -> None:
    async with serving(tmp_path) as running:
        forbidden = (ResponseCode.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden.")
        assert await refused_send(running.member("p1"), topic) == forbidden
        answer = await ask_batch(running.member("p1"), ONE, topic)
        assert (answer.code, answer.remark) == forbidden
        assert running.state.store.log.max_offset == 0


@in_loop
async def test_queues_that_are_not_there(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = running.member("p1")
        await send(member)
        [channel] = running.server.channels
        for queue_id in (4, 2**31 - 1):
            assert await refused_send(member, e=str(queue_id)) == (
                INVALID,
                f"request queueId[{queue_id}] is illegal, TopicConfig [topicName=T, readQueueNums=4, "
                "writeQueueNums=4, perm=RW-, topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false, attributes={}] "
                f"Producer: {channel.peer}",
            )
        assert len(running.state.store.queues) == 1


@in_loop
async def test_sizes(tmp_path: Path) -> None:
    async with serving(tmp_path, maxMessageSize="1000", mappedFileSizeCommitLog="262144") as running:
        member = running.member("p1")
        too_large = (
            ILLEGAL,
            "the message is illegal, maybe msg body or properties length not matched. "
            "msg body length limit 1000B, msg properties length limit 32KB.",
        )
        await send(member, body=bytes(1000))
        assert await refused_send(member, body=bytes(1001)) == too_large
        added = len(encode_properties(ADDED))
        room = 32_767 - added - len(encode_properties({"UNIQ_KEY": "U", "p": ""}))
        for character in ("x", "€"):  # bytes count, not characters
            value = character * (room // len(character.encode()))
            await send(member, i=encode_properties({"UNIQ_KEY": "U", "p": value}))
            more = {"UNIQ_KEY": "U", "p": value + character}
            assert await refused_send(member, i=encode_properties(more)) == too_large
        delayed = {"UNIQ_KEY": "U", "DELAY": "1", "p": "x" * (room - len("DELAY") - 3)}
        assert await refused_send(member, i=encode_properties(delayed)) == too_large  # no room to say where it belongs
        assert len(stored(running.state)) == 3


@in_loop
async def test_a_message_without_a_body(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        code, _ = await refused_send(running.member("p1"), body=b"")
        assert code == ResponseCode.SYSTEM_ERROR
        assert running.state.store.log.max_offset == 0


@pytest.mark.parametrize(
    "properties",
    [
        {"TRAN_MSG": "true"},
        {"TIMER_DELIVER_MS": "1700000000000"},
        {"TIMER_DELAY_MS": "5"},
        {"TIMER_DELAY_SEC": "5", "DELAY": "0"},
    ],
)
@in_loop
async def test_half_and_timed_messages_are_refused_rather_than_delivered_at_once(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    async with serving(tmp_path) as running:
        code, _ = await refused_send(running.member("p1"), i=encode_properties(properties))
        assert code in (ResponseCode.NO_PERMISSION, ResponseCode.SYSTEM_ERROR)
        assert running.state.store.log.max_offset == 0


@in_loop
async def test_a_broker_that_is_not_written_to(tmp_path: Path) -> None:
    async with serving(tmp_path, brokerPermission="4") as running:
        member = running.member("p1")
        running.state.topics.put(TopicConfig(topic_name="O", order=True), 0)
        await send(member)  # routes say what the broker allows; who comes all the same is served, as by Apache
        assert await refused_send(member, "O") == (
            ResponseCode.NO_PERMISSION,
            "the broker[127.0.0.1] sending message is forbidden",
        )


@in_loop
async def test_sends_before_the_time_they_are_taken_from(tmp_path: Path) -> None:
    async with serving(tmp_path, startAcceptSendRequestTimeStamp=str(2**62)) as running:
        code, remark = await refused_send(running.member("p1"))
        assert code == ResponseCode.SYSTEM_ERROR
        assert remark is not None
        assert running.state.store.log.max_offset == 0


@pytest.mark.parametrize("value", ["", " 1", "x", "2147483648", "-2147483649"])
@in_loop
async def test_numbers_java_would_not_read(tmp_path: Path, value: str) -> None:
    async with serving(tmp_path) as running:
        member = running.member("p1")
        answer = await ask_send(member, e=value)
        assert (answer.code, answer.remark) == (
            ResponseCode.SYSTEM_ERROR,
            f"the header field e cannot be {value!r}",
        )
        await send(member, e="+1")
        assert len(stored(running.state, queue_id=1)) == 1
