"""Questions to a broker, by their everyday names."""

from __future__ import annotations

from typing import Any

from apogeemq.protocol import javajson
from apogeemq.protocol.codes import RequestCode
from apogeemq.protocol.command import Command
from tests.unit.nameserver.live import Client


def topic_fields(name: str = "T", queues: int = 2, **more: str) -> dict[str, str]:
    return {
        "topic": name,
        "defaultTopic": "TBW102",
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "order": "false",
        **more,
    }


async def create_topic(client: Client, name: str = "T", queues: int = 2, **more: str) -> Command:
    return await client.ok(RequestCode.UPDATE_AND_CREATE_TOPIC, **topic_fields(name, queues, **more))


async def create_group(client: Client, name: str = "G") -> Command:
    return await client.ok(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, b'{"groupName":"%b"}' % name.encode())


async def send(client: Client, topic: str = "T", queue: int = 0, body: bytes = b"hello", tag: str = "") -> Command:
    return await client.ok(
        RequestCode.SEND_MESSAGE_V2,
        body,
        a="P",
        b=topic,
        c="TBW102",
        d="4",
        e=str(queue),
        f="0",
        g="1700000000000",
        h="0",
        i=f"TAGS\x01{tag}\x02" if tag else "",
    )


async def commit(client: Client, offset: int, group: str = "G", topic: str = "T", queue: int = 0) -> Command:
    fields = {"consumerGroup": group, "topic": topic, "queueId": str(queue), "commitOffset": str(offset)}
    return await client.ok(RequestCode.UPDATE_CONSUMER_OFFSET, **fields)


async def committed(client: Client, group: str = "G", topic: str = "T", queue: int = 0) -> int:
    fields = {"consumerGroup": group, "topic": topic, "queueId": str(queue), "setZeroIfNotFound": "false"}
    answer = await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, **fields)
    return int(answer.fields().get("offset", "-1"))


def pull_fields(group: str = "G", topic: str = "T", queue: int = 0, offset: int = 0, **more: str) -> dict[str, str]:
    return {
        "consumerGroup": group,
        "topic": topic,
        "queueId": str(queue),
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "30000",
        "subVersion": "0",
        "subscription": "*",
        **more,
    }


def told(answer: Command) -> Any:
    """The body, in whatever dialect; maps keyed by queues become `{(topic, queue): value}`."""
    return _plain(javajson.parse(answer.body))


def _plain(value: Any) -> Any:
    if isinstance(value, javajson.Pairs):
        return {(key["topic"], key["queueId"]): _plain(item) for key, item in value}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
