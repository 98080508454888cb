"""What consumers tell brokers of themselves, as bytes."""

from __future__ import annotations

import msgspec
import pytest

from apogeemq.errors import ProtocolError
from apogeemq.filter.subscriptions import subscription_of
from apogeemq.model.queues import MessageQueue
from apogeemq.protocol.bodies import consumers
from apogeemq.protocol.bodies.clients import decode_consumer_status, encode_reset_offset_list, encode_reset_offsets

QUEUE = MessageQueue("broker-a", 3, "T")


def test_running_info_is_written_as_fastjson_does() -> None:
    info = consumers.ConsumerRunningInfo(
        properties={"PROP_CONSUMEORDERLY": "false"},
        subscriptions=[subscription_of("T", "b || a", sub_version=7), subscription_of("A", "*")],
        queues={
            QUEUE: consumers.ProcessQueueInfo(commit_offset=5),
            MessageQueue("a", 1, "A"): consumers.ProcessQueueInfo(),
        },
        statuses={"T": consumers.ConsumeStatus(pullTPS=0.5), "A": consumers.ConsumeStatus()},
        stacks="all well",
    )
    text = consumers.encode_running_info(info).decode()
    assert text.startswith(
        '{"jstack":"all well","mqPopTable":{},"mqTable":{{"brokerName":"a","queueId":1,"topic":"A"}:{'
    )
    assert '{"brokerName":"broker-a","queueId":3,"topic":"T"}:{"cachedMsgCount":0,' in text
    assert '"cachedMsgSizeInMiB":0,"commitOffset":5,"droped":false,' in text
    assert '"tagsSet":["a","b"],"topic":"T"}]' in text  # after the other subscription
    assert text.index('"statusTable":{"A":') < text.index('"T":{"consumeFailedMsgs":0,')


def test_a_directly_consumed_message() -> None:
    body = consumers.encode_directly_result(consumers.RAISED, is_ordered=True, spent_ms=12, remark="ValueError: no")
    assert msgspec.json.decode(body) == {
        "autoCommit": True,
        "consumeResult": "CR_THROW_EXCEPTION",
        "order": True,
        "remark": "ValueError: no",
        "spentTimeMills": 12,
    }
    assert b"remark" not in consumers.encode_directly_result(consumers.CONSUMED, is_ordered=False, spent_ms=0)


def test_offsets_of_a_consumer_are_read_by_brokers() -> None:
    body = consumers.encode_consumer_status({QUEUE: 9})
    assert [(queue["queueId"], offset) for queue, offset in decode_consumer_status(body)] == [(3, 9)]


def test_offsets_to_set_in_both_forms() -> None:
    offsets = {QUEUE: 9, MessageQueue("b", 0, "T"): 0}
    for body in (encode_reset_offsets(offsets), encode_reset_offset_list(offsets)):
        assert consumers.decode_reset_offsets(body) == offsets


@pytest.mark.parametrize("body", [b"", b"{}", b'{"offsetTable":{}}', b'{"offsetTable":null}', b"[]"])
def test_no_offsets_to_set(body: bytes) -> None:
    assert consumers.decode_reset_offsets(body) == {}


@pytest.mark.parametrize(
    "body",
    [
        b"nonsense{",
        b'{"offsetTable":5}',
        b'{"offsetTable":[5]}',
        b'{"offsetTable":[{"topic":"T","brokerName":"b","queueId":0}]}',
        b'{"offsetTable":{{"topic":"T"}:5}}',
        b'{"offsetTable":{{"topic":"T","brokerName":"b","queueId":0}:"x"}}',
        b" " * (consumers.MAX_RESET_SIZE + 1),
    ],
)
def test_what_is_no_offsets_to_set(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        consumers.decode_reset_offsets(body)
