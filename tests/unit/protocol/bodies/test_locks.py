"""Bodies of queue locks."""

from __future__ import annotations

import msgspec
import pytest

from apogeemq.errors import ProtocolError
from apogeemq.model.queues import MessageQueue
from apogeemq.protocol.bodies import locks
from apogeemq.protocol.bodies.locks import LockedQueues, LockRequest, decode_lock_request

BODY = (
    b'{"clientId":"c","consumerGroup":"G","mqSet":[{"brokerName":"b","queueId":0,"topic":"T"},'
    b'{"brokerName":"b","queueId":0,"topic":"T"},{"brokerName":"b","queueId":1,"topic":"T"}],"onlyThisBroker":false}'
)


def test_request_and_answer() -> None:
    queues = [MessageQueue("b", 0, "T"), MessageQueue("b", 1, "T")]
    assert decode_lock_request(BODY) == LockRequest("G", "c", queues)
    assert msgspec.json.encode(LockedQueues(queues[:1])) == (
        b'{"lockOKMQSet":[{"brokerName":"b","queueId":0,"topic":"T"}]}'
    )


def test_no_queues() -> None:
    assert decode_lock_request(b'{"clientId":"c","consumerGroup":"G","mqSet":null}').queues == []


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b'{"clientId":"c"}', b'{"consumerGroup":"G","mqSet":[]}', b'{"clientId":"c","consumerGroup":""}'],
)
def test_nobody_asks(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_lock_request(body)


def test_too_many_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "MAX_QUEUES", 2)
    with pytest.raises(ProtocolError, match="more than 2 queues"):
        decode_lock_request(BODY)
