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
    batch,
    long_fields,
    properties_of,
    refused_send,
    send,
    send_fields,
    stored,
)
from tests.unit.event_loop import in_loop
from tests.unit.nameserver.live import ask_as, eventually
from tests.unit.transport.live import Peer

V2 = RequestCode.SEND_MESSAGE_V2
INVALID = ResponseCode.INVALID_PARAMETER


# -- what is taken -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("flush", "wait"), [("ASYNC_FLUSH", "true"), ("SYNC_FLUSH", "false"), ("SYNC_FLUSH", "true")])
@in_loop
async def test_what_is_answered_is_in_the_log_file(tmp_path: Path, flush: str, wait: str) -> None:
    """Not only in this process: whoever kills it now loses nothing."""
    async with serving(tmp_path, flushDiskType=flush) as running:
        running.state.topics.put(TopicConfig(topic_name="T"), running.state.now_ms())
        peer = Peer(*await asyncio.open_connection("127.0.0.1", int(running.address.rpartition(":")[2])))
        text = encode_properties({"UNIQ_KEY": SOME_KEY, "WAIT": wait})
        bodies = [b"<body %d>" % number for number in range(30)]
        peer.send(b"".join(encode_request(V2, 1, send_fields(i=text), body) for body in bodies))
        assert {answer.code for answer in await peer.receive(len(bodies))} == {ResponseCode.SUCCESS}
        [log_file] = (tmp_path / "store" / "commitlog").iterdir()
        in_file = log_file.read_bytes()
        assert [body for body in bodies if body not in in_file] == []
        await peer.close()


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
