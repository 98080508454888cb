"""The broker's benchmarks send what a real Java 5.5.0 client sends. The texts below are headers it sent."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.broker import frames
from benchmarks.broker.frames import Encoder, Key
from tests.golden.wire import Frame

SEND = (
    '{"code":310,"extFields":{"a":"bench-producers","b":"bench-topic-00000","c":"TBW102","d":"4","e":"3","f":"0",'
    '"g":"1794788134089","h":"0","i":"KEYS\\u0001key0\\u0002UNIQ_KEY\\u0001C0000202188060E53B934D4DA4C80000\\u0002'
    'WAIT\\u0001true\\u0002TAGS\\u0001TagA\\u0002","j":"0","k":"false","m":"false","n":"bench-broker-000"},'
    '"flag":0,"language":"JAVA","opaque":3,"serializeTypeCurrentRPC":"JSON","version":513}'
)
BATCH = (
    '{"code":320,"extFields":{"a":"bench-producers","b":"bench-topic-00000","c":"TBW102","d":"4","e":"2","f":"0",'
    '"g":"1794788134385","h":"0","i":"UNIQ_KEY\\u0001C0000202188060E53B934D4DA5F10006\\u0002WAIT\\u0001true\\u0002",'
    '"j":"0","k":"false","m":"true","n":"bench-broker-000"},'
    '"flag":0,"language":"JAVA","opaque":11,"serializeTypeCurrentRPC":"JSON","version":513}'
)
BATCH_BODY = b"".join(
    b"\0\0\0V" + bytes(12) + b"\0\0\0\x02" + body + b"\0>UNIQ_KEY\x01" + key + b"\x02WAIT\x01true\x02TAGS\x01TagA\x02"
    for body, key in (
        (b"b0", b"C0000202188060E53B934D4DA5F10003"),
        (b"b1", b"C0000202188060E53B934D4DA5F10004"),
        (b"b2", b"C0000202188060E53B934D4DA5F10005"),
    )
)
PULL = (
    '{"code":11,"extFields":{"queueId":"1","maxMsgBytes":"262144","maxMsgNums":"32","sysFlag":"2",'
    '"suspendTimeoutMillis":"15000","commitOffset":"0","bname":"bench-broker-000","topic":"bench-topic-00000",'
    '"queueOffset":"0","expressionType":"TAG","subVersion":"1794788135482","consumerGroup":"bench-consumers"},'
    '"flag":0,"language":"JAVA","opaque":40,"serializeTypeCurrentRPC":"JSON","version":513}'
)
HEARTBEAT = (
    '{"clientID":"192.0.2.2@c","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET",'
    '"consumeType":"CONSUME_PASSIVELY","groupName":"bench-consumers","messageModel":"CLUSTERING",'
    '"subscriptionDataSet":[{"classFilterMode":false,"codeSet":[],"expressionType":"TAG","subString":"*",'
    '"subVersion":1700000000000,"tagsSet":[],"topic":"bench-topic-00000"},{"classFilterMode":false,"codeSet":[],'
    '"expressionType":"TAG","subString":"*","subVersion":1700000000000,"tagsSet":[],'
    '"topic":"%RETRY%bench-consumers"}],"unitMode":false}],"heartbeatFingerprint":0,'
    '"producerDataSet":[{"groupName":"CLIENT_INNER_PRODUCER"}],"withoutSub":false}'
)

KEY = Key(0, "bench-topic-00000", 3, 16)


def _like(frame: bytes, real: str, *, variable: str) -> None:
    """Equal but for the values that differ from message to message."""

    def masked(header: dict[str, Any]) -> dict[str, Any]:
        fields = {name: "" if name in variable.split() else value for name, value in header["extFields"].items()}
        return {**header, "extFields": fields, "opaque": 0}

    made = Frame.decode(frame).fields()
    assert json.dumps(masked(made)) == json.dumps(masked(json.loads(real)))


def _names(properties: str) -> list[str]:
    return [pair.split("\x01")[0] for pair in properties.split("\x02")]


def test_a_send_has_the_form_of_a_real_clients() -> None:
    frame = Encoder(keyed=True).send(KEY)
    _like(frame, SEND, variable="d g i n")
    made, real = Frame.decode(frame).fields()["extFields"], json.loads(SEND)["extFields"]
    assert _names(made["i"]) == _names(real["i"])
    assert len(Frame.decode(frame).body) == KEY.size
    without_keys = Frame.decode(Encoder().send(KEY)).fields()["extFields"]["i"]
    assert _names(without_keys) == _names(real["i"])[1:]


def test_a_batch_has_the_form_of_a_real_clients() -> None:
    encoder = Encoder()
    frame = encoder.batch([Key(number, "bench-topic-00000", 2, 2) for number in range(3)])
    _like(frame, BATCH, variable="d g i n")
    assert _names(Frame.decode(frame).fields()["extFields"]["i"]) == _names(json.loads(BATCH)["extFields"]["i"])
    made = Frame.decode(frame).body
    assert len(made) == len(BATCH_BODY)
    # Bodies and unique keys differ, but not in length.
    size = len(BATCH_BODY) // 3
    key = BATCH_BODY.index(b"C0000202")
    for start in (0, size, 2 * size):
        assert made[start : start + 20] == BATCH_BODY[start : start + 20]
        assert made[start + 22 : start + key] == BATCH_BODY[start + 22 : start + key]
        assert made[start + key + 32 : start + size] == BATCH_BODY[start + key + 32 : start + size]


def test_a_pull_has_the_form_of_a_real_clients() -> None:
    frame = frames.pull_frame("bench-topic-00000", 1, 0, opaque=40)
    _like(frame, PULL, variable="bname subVersion")


def test_a_heartbeat_has_the_form_of_a_real_clients() -> None:
    frame = frames.heartbeat_frame("bench-topic-00000", client_id="192.0.2.2@c")
    assert Frame.decode(frame).body.decode() == HEARTBEAT
