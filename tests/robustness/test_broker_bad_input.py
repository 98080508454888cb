"""Requests that are wrong in some way: a clear answer, nothing stored, the connection lives, nobody loses anything."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from apogeemq.model.properties import encode_properties
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import BINARY
from tests.robustness.broker_attacked import (
    QUEUES,
    SEND_FIELDS,
    TOPIC,
    AttackedBroker,
    pull_request,
    send_request,
)
from tests.robustness.raw_peer import frame, request
from tests.unit.broker.handlers.test_send_batches import LYING_BATCHES

MIB = 1024 * 1024
ERROR = ResponseCode.SYSTEM_ERROR
ILLEGAL = ResponseCode.MESSAGE_ILLEGAL
INVALID = ResponseCode.INVALID_PARAMETER
NO_TOPIC = ResponseCode.TOPIC_NOT_EXIST
FORBIDDEN = ResponseCode.NO_PERMISSION
NO_GROUP = ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST

Case = tuple[bytes, int]


def without(name: str) -> bytes:
    return request(
        RequestCode.SEND_MESSAGE_V2, {key: value for key, value in SEND_FIELDS.items() if key != name}, b"body"
    )


def with_properties(text: str) -> bytes:
    return send_request(i=text)


def escaped(fields: str) -> bytes:
    """A send whose fields are JSON as it stands here."""
    head = '{"code":310,"flag":0,"language":"JAVA","opaque":1,"version":513,"extFields":{' + fields + "}}"
    return frame(head.encode(), b"body")


LONE = ",".join(f'"{name}":"{value}"' for name, value in SEND_FIELDS.items() if name not in "bi")

SENDS: dict[str, Case] = {
    "an unknown topic": (send_request(b="none", c="none"), NO_TOPIC),
    "an unknown topic and no default topic": (send_request(b="none", c=""), NO_TOPIC),
    "no topic's name": (send_request(b=""), INVALID),
    "a blank name": (send_request(b="   "), INVALID),
    "the folder above": (send_request(b=".."), INVALID),
    "this folder": (send_request(b="."), INVALID),
    "a path": (send_request(b="../../../tmp/x"), INVALID),
    "an absolute path": (send_request(b="/tmp/x"), INVALID),
    "a path in a retry topic": (send_request(b="%RETRY%../x"), INVALID),
    "a name with a zero": (send_request(b="a\0b"), INVALID),
    "a name with a line end": (send_request(b="a\n"), INVALID),
    "a name in other letters": (send_request(b="Ｔ"), INVALID),
    "a long name": (send_request(b="t" * 128), INVALID),
    "a very long name": (send_request(b="t" * 900_000), INVALID),
    "a long retry topic": (send_request(b="%RETRY%".ljust(256, "g")), INVALID),
    "a retry topic of no possible group": (send_request(b="%RETRY%".ljust(200, "g")), NO_GROUP),
    "a topic of the broker's own": (send_request(b="SCHEDULE_TOPIC_XXXX"), FORBIDDEN),
    "half messages": (send_request(b="RMQ_SYS_TRANS_HALF_TOPIC"), FORBIDDEN),
    "a queue too many": (send_request(e=str(QUEUES)), INVALID),
    "the last queue of all": (send_request(e=str(2**31 - 1)), INVALID),
    "a queue beyond Java's int": (send_request(e=str(2**31)), ERROR),
    "a queue that is no number": (send_request(e="one"), ERROR),
    "a time that is no number": (send_request(g="now"), ERROR),
    "a time beyond Java's long": (send_request(g=str(2**63)), ERROR),
    "a flag without end": (send_request(h="9" * 10_000), ERROR),
    **{f"without {name}": (without(name), ERROR) for name in "befgh"},
    "no fields at all": (request(RequestCode.SEND_MESSAGE_V2, {}, b"body"), ERROR),
    "no body": (send_request(b""), ERROR),
    "a body one byte too long": (send_request(bytes(4 * MIB + 1)), ILLEGAL),
    "a body much too long": (send_request(bytes(15 * MIB)), ILLEGAL),
    "properties too long": (with_properties(encode_properties({"p": "x" * 32_768})), ILLEGAL),
    "properties too long as bytes": (with_properties(encode_properties({"p": "€" * 11_000})), ILLEGAL),
    "very long properties": (with_properties(encode_properties({"p": "x" * 800_000})), ILLEGAL),
    "a row of zeros": (with_properties(encode_properties({"p": "\0" * 16})), ILLEGAL),
    "a sector of zeros": (with_properties(encode_properties({"p": "\0" * 2048})), ILLEGAL),
    "a delay that is no number": (with_properties(encode_properties({"DELAY": "soon"})), ERROR),
    "a delay without end": (with_properties(encode_properties({"DELAY": "9" * 30_000})), ERROR),
    "half a character as topic": (escaped(LONE + ',"b":"\\ud800"'), INVALID),
    "fields that are no object": (frame(b'{"code":310,"opaque":1,"extFields":[1,2]}', b"body"), ERROR),
    "a number for a topic": (escaped(LONE + ',"b":[1]'), INVALID),
    "old fields for the new code": (
        request(RequestCode.SEND_MESSAGE_V2, {"topic": TOPIC, "queueId": "0"}, b"body"),
        ERROR,
    ),
    "new fields for the old code": (send_request(code=RequestCode.SEND_MESSAGE), ERROR),
    **{
        f"a batch: {name}": (send_request(body, code=RequestCode.SEND_BATCH_MESSAGE, m="true", i=""), ILLEGAL)
        for name, body in LYING_BATCHES.items()
    },
    "a batch longer than any": (
        send_request(bytes(4 * MIB + 1), code=RequestCode.SEND_BATCH_MESSAGE, m="true"),
        ILLEGAL,
    ),
    "binary, an unknown topic": (
        request(RequestCode.SEND_MESSAGE_V2, {**SEND_FIELDS, "b": "../x"}, b"body", codec=BINARY),
        INVALID,
    ),
    "binary, without a topic": (
        request(RequestCode.SEND_MESSAGE_V2, {**SEND_FIELDS, "b": ""}, b"body", codec=BINARY),
        ERROR,
    ),
}

OTHERS: dict[str, Case] = {
    "pull: an unknown topic": (pull_request(topic="none"), NO_TOPIC),
    "pull: a path": (pull_request(topic="../x"), NO_TOPIC),
    "pull: a queue too many": (pull_request(queue_id=QUEUES), INVALID),
    "pull: a negative queue": (pull_request(queue_id=-1), INVALID),
    "pull: beyond the end": (pull_request(10**9), ResponseCode.PULL_OFFSET_MOVED),
    "pull: before the beginning": (pull_request(-(2**63)), ResponseCode.PULL_OFFSET_MOVED),
    "pull: an offset beyond Java's long": (pull_request(2**63), ERROR),
    "pull: no possible group": (pull_request(consumerGroup="../x"), NO_GROUP),
    "pull: no group": (pull_request(consumerGroup=""), NO_GROUP),
    "pull: a group without subscription": (
        pull_request(consumerGroup="new", sysFlag="0"),
        ResponseCode.SUBSCRIPTION_NOT_EXIST,
    ),
    "pull: an expression of separators": (pull_request(subscription="||||"), ResponseCode.SUBSCRIPTION_PARSE_FAILED),
    "pull: an expression without end": (
        pull_request(subscription="a||" * 100_000),
        ResponseCode.SUBSCRIPTION_PARSE_FAILED,
    ),
    "pull: an unknown kind of expression": (pull_request(expressionType="SQL92", subscription="a = "), ERROR),
    "pull: nothing": (request(RequestCode.PULL_MESSAGE), ERROR),
    "commit: no such group": (
        request(RequestCode.UPDATE_CONSUMER_OFFSET, {"consumerGroup": "none", "topic": TOPIC, "queueId": "0"}),
        NO_GROUP,
    ),
    "commit: no such topic": (
        request(RequestCode.UPDATE_CONSUMER_OFFSET, {"consumerGroup": "TOOLS_CONSUMER", "topic": "../x"}),
        NO_TOPIC,
    ),
    "query: nothing": (request(RequestCode.QUERY_MESSAGE), ERROR),
    "view: nowhere": (request(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": "-5"}), ERROR),
    "view: in the middle of a message": (request(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": "3"}), ERROR),
    "send back: nowhere": (
        request(RequestCode.CONSUMER_SEND_MSG_BACK, {"offset": "3", "group": "G", "delayLevel": "0"}),
        ERROR,
    ),
    "send back: no possible group": (
        request(RequestCode.CONSUMER_SEND_MSG_BACK, {"offset": "0", "group": "../x", "delayLevel": "0"}),
        NO_GROUP,
    ),
    "a heartbeat that is none": (request(RequestCode.HEART_BEAT, {}, b"\0\1\2"), ERROR),
    "locks that are none": (request(RequestCode.LOCK_BATCH_MQ, {}, b"["), ERROR),
    "an unknown code": (request(31_999), ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
    "a negative code": (request(-7), ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedBroker]:
    """With some messages; when all is over it is killed, started again, and has them."""
    attacked = AttackedBroker(tmp_path_factory.mktemp("broker"))
    with attacked.process:
        with attacked.peer() as peer:
            for number in range(20):
                attacked.send(peer, b"kept %d" % number, e=str(number % QUEUES))
        yield attacked
        attacked.kill_and_restart()
        with attacked.peer() as peer:
            attacked.check_acknowledged(peer)
            attacked.send(peer, b"after all")
        assert attacked.process.stop() == 0
        attacked.process.start()
        with attacked.peer() as peer:
            attacked.check_acknowledged(peer)
        attacked.check_log_is_quiet()


@pytest.fixture
def attacked(running: AttackedBroker) -> Iterator[AttackedBroker]:
    yield running
    assert running.process.is_running()
    running.check_log_is_quiet()


@pytest.mark.parametrize(("data", "code"), [*SENDS.values(), *OTHERS.values()], ids=[*SENDS, *OTHERS])
def test_a_wrong_request_is_answered_and_changes_nothing(attacked: AttackedBroker, data: bytes, code: int) -> None:
    with attacked.peer() as peer:
        before = attacked.log_end(peer)
        for _ in range(2):
            answer = peer.ask(data)
            assert answer.code == code, (answer.code, answer.remark)
            assert answer.remark
            assert len(answer.remark) < 64 * 1024
        assert attacked.log_end(peer) == before
        attacked.send(peer, b"next")  # over the same connection


def test_no_folder_is_made_outside_the_store(attacked: AttackedBroker) -> None:
    """After the cases before."""
    folder = attacked.process.work_dir
    assert {path.name for path in folder.iterdir()} <= {"store", "logs", "broker.conf", "broker.out"}
    queues = folder / "store" / "consumequeue"
    assert {path.name for path in queues.iterdir()} <= {TOPIC}


MALFORMED_PROPERTIES = {
    "no separators": "just some text",
    "only ends of names": "\x01" * 1000,
    "only ends of values": "\x02" * 1000,
    "names without values": "a\x01\x02b\x01\x02",
    "values without names": "\x01a\x02\x01b\x02",
    "a name twice": "a\x011\x02a\x012\x02",
    "no last end": "UNIQ_KEY\x01U",
    "stray zeros": "a\0b\x01c\0\0d\x02",
    "the end of a value inside a value": "a\x01b\x02c\x02d",
    "control characters": "".join(map(chr, range(1, 32))),
    "other letters": "ключ\x01значение 😀\x02",
    "many": "".join(f"{number}\x01x\x02" for number in range(4000)),
    "almost all there is room for": f"p\x01{'x' * 32_600}\x02",
}


@pytest.mark.parametrize("text", MALFORMED_PROPERTIES.values(), ids=MALFORMED_PROPERTIES.keys())
def test_odd_properties_cost_nobody_a_message(attacked: AttackedBroker, text: str) -> None:
    """As with Apache's brokers, what is no property is left out, and the message is taken."""
    with attacked.peer() as peer:
        attacked.send(peer, f"odd {len(text)}".encode(), i=text)
        attacked.send(peer, b"next")


def test_half_a_character_in_a_property_costs_nobody_a_connection(attacked: AttackedBroker) -> None:
    with attacked.peer() as peer:
        answer = peer.ask(escaped(LONE + f',"b":"{TOPIC}","i":"a\\u0001\\ud800\\u0002"'))
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        attacked.acknowledged[answer.fields()["msgId"]] = b"body"
        attacked.send(peer, b"next")


def test_zeros_in_properties_cost_nobody_a_message_when_the_broker_is_killed(attacked: AttackedBroker) -> None:
    with attacked.peer() as peer:
        for count in range(1, 16):
            attacked.send(peer, b"zeros", i=encode_properties({"\0" * count + "n": "\0" * count, "p": "x" * 100}))
        attacked.send(peer, b"last of all", i=encode_properties({"p": "\0" * 15}))
    attacked.kill_and_restart()
    with attacked.peer() as peer:
        attacked.check_acknowledged(peer)


def test_a_message_inside_a_message_is_only_a_body(attacked: AttackedBroker) -> None:
    """A body that looks like a record of the log, with properties that would be refused."""
    with attacked.peer() as peer:
        peer.ask(send_request(b"x"))
        end = attacked.log_end(peer)
        answer = peer.ask(pull_request(0))
        record = answer.body[: int.from_bytes(answer.body[:4])]
        attacked.send(peer, record)
        for offset in range(end, end + 300):
            fields = {"offset": str(offset), "group": "G", "delayLevel": "-1", "originTopic": TOPIC}
            if offset != end:
                assert peer.ask(request(RequestCode.CONSUMER_SEND_MSG_BACK, fields)).code == ERROR


def test_a_batch_of_very_many_messages(attacked: AttackedBroker) -> None:
    empty = (22).to_bytes(4) + bytes(18)
    body = empty * (4 * MIB // len(empty))
    with attacked.peer() as peer, attacked.peer() as other:
        peer.send(send_request(body, code=RequestCode.SEND_BATCH_MESSAGE, m="true", i=""))
        attacked.send(other, b"meanwhile")
        assert attacked.process.is_running()
