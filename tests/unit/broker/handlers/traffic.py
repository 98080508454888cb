"""Sends and pulls over the wire, and what came of them."""

from __future__ import annotations

from apogeemq.broker.state import BrokerState
from apogeemq.model.properties import decode_properties, encode_properties
from apogeemq.protocol.batch import encode_batch
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import JSON, Command
from apogeemq.protocol.headers.broker import PULL_COMMITS, PULL_SUBSCRIBES, PULL_SUSPENDS
from apogeemq.protocol.record import Record, decode_record
from tests.unit.nameserver.live import Client

BORN_TIME = 1_700_000_000_000
SOME_KEY = "7F0000010000000000000000000000AA"
FIXED = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
ADDED = {**FIXED, "CLUSTER": "DefaultCluster"}
HOLDS = PULL_SUSPENDS | PULL_SUBSCRIBES
COMMITS = PULL_COMMITS | PULL_SUBSCRIBES


def send_fields(topic: str = "T", **more: str) -> dict[str, str]:
    """Of the second version: a producer group, topic, c default topic, d its queues, e queue, i properties …"""
    return {
        "a": "P",
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": "0",
        "f": "0",
        "g": str(BORN_TIME),
        "h": "0",
        "i": encode_properties({"UNIQ_KEY": SOME_KEY}),
        "j": "0",
        "k": "false",
        "m": "false",
        **more,
    }


def long_fields(topic: str = "T", **more: str) -> dict[str, str]:
    """Of the first version."""
    return {
        "producerGroup": "P",
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": str(BORN_TIME),
        "flag": "0",
        "properties": encode_properties({"UNIQ_KEY": SOME_KEY}),
        "reconsumeTimes": "0",
        "unitMode": "false",
        "batch": "false",
        **more,
    }


async def ask_send(client: Client, topic: str = "T", body: bytes = b"hello", **more: str) -> Command:
    return await client.ask(RequestCode.SEND_MESSAGE_V2, body, JSON, **send_fields(topic, **more))


async def send(client: Client, topic: str = "T", body: bytes = b"hello", **more: str) -> Command:
    """One message that is taken."""
    answer = await ask_send(client, topic, body, **more)
    assert answer.code == ResponseCode.SUCCESS, (answer.code, answer.remark)
    return answer


async def send_tagged(client: Client, tag: str, body: bytes = b"hello", topic: str = "T", queue_id: int = 0) -> Command:
    return await send(client, topic, body, e=str(queue_id), i=encode_properties({"UNIQ_KEY": "U", "TAGS": tag}))


async def refused_send(client: Client, topic: str = "T", body: bytes = b"hello", **more: str) -> tuple[int, str | None]:
    answer = await ask_send(client, topic, body, **more)
    assert answer.code != ResponseCode.SUCCESS
    assert answer.fields() == FIXED  # Java's producers look into them whatever the code
    return answer.code, answer.remark


async def ask_batch(client: Client, body: bytes, topic: str = "T", **more: str) -> Command:
    fields = send_fields(topic, **{"m": "true", "i": "", **more})
    return await client.ask(RequestCode.SEND_BATCH_MESSAGE, body, **fields)


def batch(*bodies: bytes, properties: bytes = b"") -> bytes:
    return encode_batch([(number, body, properties) for number, body in enumerate(bodies)])


async def pull(
    client: Client,
    offset: int = 0,
    topic: str = "T",
    queue_id: int = 0,
    *,
    flags: int = PULL_SUBSCRIBES,
    codec: int = JSON,
    **more: str,
) -> Command:
    fields = {
        "consumerGroup": "G",
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": str(flags),
        "commitOffset": "0",
        "suspendTimeoutMillis": "60000",
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
        **more,
    }
    return await client.ask(RequestCode.PULL_MESSAGE, b"", codec, **fields)


def records(answer: Command) -> list[Record]:
    """Of a pull that found something, or of a query."""
    assert answer.code == ResponseCode.SUCCESS, (answer.code, answer.remark)
    found, position = [], 0
    while position < len(answer.body):
        found.append(decode_record(answer.body, position))
        position += found[-1].size
    return found


def bodies(answer: Command) -> list[bytes]:
    return [record.body for record in records(answer)]


def offsets(answer: Command) -> tuple[int, int, int]:
    """Where to go on, where the queue begins and ends."""
    fields = answer.fields()
    return int(fields["nextBeginOffset"]), int(fields["minOffset"]), int(fields["maxOffset"])


def stored(state: BrokerState, topic: str = "T", queue_id: int = 0) -> list[Record]:
    """All messages of a queue, as the store has them."""
    queue = state.store.queues.get((topic, queue_id))
    if queue is None:
        return []
    entries = [queue.entry(offset) for offset in range(queue.min_offset, queue.max_offset)]
    found = [state.store.log.record_at(entry[0]) for entry in entries if entry is not None]
    assert None not in found
    return [record for record in found if record is not None]


def properties_of(record: Record) -> dict[str, str]:
    return decode_properties(record.properties.decode())
