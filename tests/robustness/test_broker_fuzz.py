"""Requests of any code with any fields and any body: each is answered once, and nothing acknowledged is lost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgspec
import pytest

from apogeemq.protocol.codec import encode_frame
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import BINARY, FLAG_ONE_WAY, JSON, Command, CommandHead
from apogeemq.protocol.headers import admin, broker, clients
from tests.robustness.broker_attacked import QUEUES, SEND_FIELDS, AttackedBroker, view
from tests.robustness.raw_peer import JAVA_5_5_0, RawPeer, request
from tests.unit.broker.handlers.traffic import batch, long_fields

IS_SOAK = os.environ.get("APOGEE_SOAK") == "1"
COUNT = 100_000 if IS_SOAK else 3_000
AT_ONCE = 200
SENDS = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
# Those may wait: for a message, or for a client that is asked.
MAY_WAIT = (
    RequestCode.PULL_MESSAGE,
    RequestCode.LITE_PULL_MESSAGE,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
    RequestCode.GET_CONSUMER_RUNNING_INFO,
    RequestCode.CONSUME_MESSAGE_DIRECTLY,
)
CODES = [int(code) for code in RequestCode]
FIELD_NAMES = sorted(
    {
        field.encode_name
        for module in (admin, broker, clients)
        for header in vars(module).values()
        if isinstance(header, type) and issubclass(header, msgspec.Struct)
        for field in msgspec.structs.fields(header)
    }
)
VALUES = (
    *("", " ", "0", "1", "-1", "3", "4", "+1", "007", "1.5", "1e3", "NaN", "true", "false", "TRUE", "null", "x"),
    *(str(2**31 - 1), str(2**31), str(-(2**31)), str(2**63 - 1), str(2**63), str(-(2**63)), "9" * 400),
    *("fuzz", "steady", "TBW102", "DefaultCluster", "broker-a", "%RETRY%G", "%DLQ%G", "G", "../x", "a/b", "a@b"),
    *("t" * 127, "t" * 128, "t" * 5000, "é😀", "\0", "\0" * 600, "a\nb", "'\"\\", "%s%d%n", "$(x)", "*", "A||B", "||"),
    *("UNIQ_KEY\x01U\x02TAGS\x01A\x02", "DELAY\x013\x02", "\x01\x02" * 50, "SINGLE_TAG", "TAG", "SQL92", "LOWER"),
    *("+message.type=NORMAL", "TOPIC_PUT_NUMS", "c1", "{}", "[]", "10.0.0.1:1", "2:4;9"),
)
# A value that many requests take for each of the names.
USUAL = dict.fromkeys(FIELD_NAMES, "0") | {
    **dict.fromkeys(("topic", "defaultTopic", "originTopic", "topics", "topicList", "key"), "fuzz"),
    **dict.fromkeys(("consumerGroup", "group", "groupName", "producerGroup", "srcGroup", "destGroup"), "G"),
    **dict.fromkeys(("maxMsgNums", "maxNum", "count", "readQueueNums", "writeQueueNums"), "4"),
    "sysFlag": "4",
    "subscription": "*",
    "expressionType": "TAG",
    "perm": "6",
    "topicFilterType": "SINGLE_TAG",
    "clientID": "c1",
    "clientId": "c1",
    "statsName": "TOPIC_PUT_NUMS",
    "statsKey": "fuzz",
    "endTimestamp": str(2**60),
}
BODIES = (
    *(b"", b"x", b"{}", b"[]", b"null", b"{", b'{"a":1}', b"[1,2]", b'"text"', b"\0" * 100, b"\xff\xfe", b"k=v\n"),
    *(batch(b"one", b"two"), batch(b"one")[:-1], b"[" * 20_000, b'{"a":' * 20_000),
    b'{"clientID":"c1","producerDataSet":[{"groupName":"P"}],"consumerDataSet":[]}',
    b'{"clientId":"c1","consumerGroup":"G","mqSet":[{"topic":"fuzz","brokerName":"broker-a","queueId":0}]}',
    b'{"groupName":"G2","retryQueueNums":-5}',
    b'{"topicConfigList":[{"topicName":"fuzz2","readQueueNums":-1}]}',
    b'{"offsetTable":{{"topic":"fuzz"}:1}}',
)


def any_request(random: Random, opaque: int) -> tuple[int, bool, bytes]:
    """(code, whether it is one-way, frame). Most fields are there and right; a few are anything."""
    code = random.choice(SENDS) if random.random() < 0.3 else random.choice((*CODES, random.randrange(-5, 1000)))
    right = long_fields("fuzz") if code == RequestCode.SEND_MESSAGE else USUAL
    if code in SENDS[1:]:
        right = {**SEND_FIELDS, "b": "fuzz", "e": str(random.randrange(QUEUES)), "m": random.choice(("true", "false"))}
    fields = {name: value for name, value in right.items() if random.random() < 0.98}
    for _ in range(random.randrange(4)):
        fields[random.choice(FIELD_NAMES)] = random.choice(VALUES)
    fields["suspendTimeoutMillis"] = "1"  # the longest wait is not what is tried here
    is_one_way = random.random() < 0.05
    head = CommandHead(
        code,
        opaque,
        FLAG_ONE_WAY if is_one_way else 0,
        random.choice((None, None, "remark")),
        random.choice(("JAVA", "GO", "OTHER")),
        random.choice((JAVA_5_5_0, 0, 317)),
    )
    codec = BINARY if random.random() < 0.2 and -(2**15) <= code < 2**15 else JSON
    return code, is_one_way, encode_frame(head, fields, random.choice(BODIES), codec)


@pytest.fixture
def attacked(tmp_path: Path) -> Iterator[AttackedBroker]:
    made = AttackedBroker(tmp_path, {"mappedFileSizeCommitLog": 64 << 20})
    with made.process:
        yield made


def answers_up_to(peer: RawPeer, opaque: int) -> list[Command]:
    """All that comes before the answer to the last request; questions of the broker's own are left out."""
    found: list[Command] = []
    while True:
        answer = peer.receive()
        if not answer.is_response:
            continue
        if answer.opaque == opaque:
            return found
        found.append(answer)


def test_any_request_is_answered_and_costs_nobody_anything(attacked: AttackedBroker) -> None:
    random = Random(4)
    waiting: dict[int, int] = {}
    refusals, stored = 0, []
    with attacked.peer() as peer, attacked.peer() as steady:
        for number in range(20):
            attacked.send(steady, b"kept %d" % number)
        for first in range(1, COUNT + 1, AT_ONCE):
            for opaque in range(first, first + AT_ONCE):
                code, is_one_way, frame = any_request(random, opaque)
                if not is_one_way:
                    waiting[opaque] = code
                peer.send(frame)
            last = first + AT_ONCE + COUNT
            peer.send(request(RequestCode.GET_MAX_OFFSET, {"topic": "fuzz", "queueId": "0"}, opaque=last))
            for answer in answers_up_to(peer, last):
                code = waiting.pop(answer.opaque)  # answered once, and nothing that was not asked
                if code in SENDS and answer.code == ResponseCode.SUCCESS:
                    stored += answer.fields()["msgId"].split(",")
                if answer.code != ResponseCode.SUCCESS:
                    refusals += 1
                    assert answer.remark or answer.code == ResponseCode.QUERY_NOT_FOUND, (code, answer.code)
        # A send that makes its topic is answered when the topic is kept, which may be after the last request.
        deadline_opaque = 10 * COUNT
        while any(code not in MAY_WAIT for code in waiting.values()):
            deadline_opaque += 1
            peer.send(request(RequestCode.GET_MAX_OFFSET, {"topic": "fuzz", "queueId": "0"}, opaque=deadline_opaque))
            for answer in answers_up_to(peer, deadline_opaque):
                del waiting[answer.opaque]
        assert refusals > COUNT / 10
        assert len(stored) > COUNT / 20
        attacked.send(steady, b"after all")
        attacked.check_acknowledged(steady)
    attacked.check_log_is_quiet()
    attacked.kill_and_restart()
    with attacked.peer() as peer:
        attacked.check_acknowledged(peer)
        assert None not in [view(peer, message_id) for message_id in stored]
        attacked.send(peer, b"and on")
    attacked.check_log_is_quiet()
    assert attacked.process.stop() == 0
