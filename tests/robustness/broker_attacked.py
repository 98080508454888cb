"""A broker process under attack, as others see it, and the messages it has acknowledged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from apogeemq.model.ids import parse_offset_id
from apogeemq.model.properties import encode_properties
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.record import decode_record
from tests.peers.ours import Broker
from tests.robustness.raw_peer import RawPeer, request

TOPIC = "steady"
QUEUES = 4


def send_request(body: bytes = b"body", *, code: int = RequestCode.SEND_MESSAGE_V2, **fields: str) -> bytes:
    """A right send to the steady topic, but for what is said."""
    return request(code, {**SEND_FIELDS, **fields}, body)


SEND_FIELDS: Mapping[str, str] = {
    "a": "P",
    "b": TOPIC,
    "c": "TBW102",
    "d": str(QUEUES),
    "e": "0",
    "f": "0",
    "g": "1700000000000",
    "h": "0",
    "i": encode_properties({"UNIQ_KEY": "7F000001"}),
    "j": "0",
    "k": "false",
    "m": "false",
}


def pull_request(offset: int = 0, queue_id: int = 0, *, opaque: int = 1, **fields: str) -> bytes:
    right = {
        "consumerGroup": "G",
        "topic": TOPIC,
        "queueId": str(queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "1000",
        "subscription": "*",
        "subVersion": "0",
    }
    return request(RequestCode.PULL_MESSAGE, {**right, **fields}, opaque=opaque)


class AttackedBroker:
    def __init__(self, folder: Path, properties: Mapping[str, object] | None = None) -> None:
        self.process = Broker("", work_dir=folder, properties=properties)
        self.acknowledged: dict[str, bytes] = {}  # message id -> body

    def peer(self) -> RawPeer:
        return RawPeer(self.process.port)

    def send(self, peer: RawPeer, body: bytes, **fields: str) -> None:
        """A message that is acknowledged, and must be there from now on."""
        answer = peer.ask(request(RequestCode.SEND_MESSAGE_V2, {**SEND_FIELDS, **fields}, body))
        assert answer.code == ResponseCode.SUCCESS, (answer.code, answer.remark)
        self.acknowledged[answer.fields()["msgId"]] = body

    def log_end(self, peer: RawPeer) -> int:
        answer = peer.ask(request(RequestCode.GET_BROKER_RUNTIME_INFO))
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return int(json.loads(answer.body)["table"]["commitLogMaxOffset"])

    def check_acknowledged(self, peer: RawPeer) -> None:
        for message_id, body in self.acknowledged.items():
            assert view(peer, message_id) == body, message_id

    def kill_and_restart(self) -> None:
        self.process.kill()
        self.process.start()

    def check_log_is_quiet(self) -> None:
        """No request, however wrong, is an exception nobody thought of."""
        assert "Traceback" not in self.process.output(), self.process.output()


def view(peer: RawPeer, message_id: str) -> bytes | None:
    """The body of a message by its id; None when it is not there."""
    offset = parse_offset_id(message_id).physical_offset
    answer: Command = peer.ask(request(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(offset)}))
    return decode_record(answer.body).body if answer.code == ResponseCode.SUCCESS else None
