"""Requests as clients and admin tools send them, with fixed values."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from typing import Any

from tests.golden.broker.steps import Ask

SEND, PULL, QUERY, QUERY_OFFSET, UPDATE_OFFSET, CREATE_TOPIC = 10, 11, 12, 14, 15, 17
SEARCH_OFFSET, MAX_OFFSET, MIN_OFFSET, EARLIEST_TIME, VIEW_MESSAGE = 29, 30, 31, 32, 33
HEARTBEAT, UNREGISTER_CLIENT, SEND_BACK, CONSUMER_LIST, IDS_CHANGED = 34, 35, 36, 38, 40
LOCK, UNLOCK, CHECK_CLIENT = 41, 42, 46
CREATE_GROUP, TOPIC_STATS, CONSUME_STATS, DELETE_TOPIC = 200, 202, 208, 215
SEND_V2, SEND_BATCH, LITE_PULL = 310, 320, 361

BORN = "1700000000000"
COMMIT, SUSPEND, SUBSCRIPTION, CLASS_FILTER, LITE = 1, 2, 4, 8, 16

LETTERS = {
    "producerGroup": "a",
    "topic": "b",
    "defaultTopic": "c",
    "defaultTopicQueueNums": "d",
    "queueId": "e",
    "sysFlag": "f",
    "bornTimestamp": "g",
    "flag": "h",
    "properties": "i",
    "reconsumeTimes": "j",
    "unitMode": "k",
    "maxReconsumeTimes": "l",
    "batch": "m",
    "brokerName": "n",
}


def compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def properties(values: Mapping[str, str]) -> str:
    return "".join(f"{key}\x01{value}\x02" for key, value in values.items())


def without(fields: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in fields.items() if name not in names}


def send_fields(topic: str = "T", props: Mapping[str, str] | str | None = None, **extra: object) -> dict[str, str]:
    """The header of a send by the long names, as Java's producer fills it."""
    text = props if isinstance(props, str) else properties(props if props is not None else {"UNIQ_KEY": "U-1"})
    fields = {
        "producerGroup": "P",
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": BORN,
        "flag": "0",
        "properties": text,
        "reconsumeTimes": "0",
        "unitMode": "false",
        "batch": "false",
    }
    return fields | {name: str(value) for name, value in extra.items()}


def letters(fields: Mapping[str, str]) -> dict[str, str]:
    return {LETTERS.get(name, name): value for name, value in fields.items()}


def send(
    step: str,
    topic: str = "T",
    body: bytes = b"hello",
    props: Mapping[str, str] | str | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    **extra: object,
) -> Ask:
    """As the Java producer sends: code 310 with letters."""
    return Ask(step, SEND_V2, letters(send_fields(topic, props, **extra)), body, **(options or {}))


def send_v1(step: str, topic: str = "T", body: bytes = b"hello", props: Any = None, **extra: object) -> Ask:
    """As the Go producer sends: code 10 with long names."""
    return Ask(step, SEND, send_fields(topic, props, **extra), body)


def inner(body: bytes, props: Mapping[str, str], *, flag: int = 0, lie: int = 0) -> bytes:
    """One message of a batch; `lie` is added to the total size it claims."""
    text = properties(props).encode()
    size = 4 + 4 + 4 + 4 + 4 + len(body) + 2 + len(text)
    return struct.pack(">iiiii", size + lie, 0, 0, flag, len(body)) + body + struct.pack(">h", len(text)) + text


def batch(step: str, messages: Iterable[bytes], topic: str = "T", **extra: object) -> Ask:
    fields = send_fields(topic, extra.pop("props", "WAIT\x01true\x02"), **{"batch": "true"} | extra)  # type: ignore[arg-type]
    return Ask(step, SEND_BATCH, letters(fields), b"".join(messages))


def pull_fields(topic: str = "T", group: str = "G", **extra: object) -> dict[str, str]:
    """A pull that carries its subscription and does not wait."""
    fields = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": "0",
        "queueOffset": "0",
        "maxMsgNums": "32",
        "sysFlag": str(SUBSCRIPTION),
        "commitOffset": "0",
        "suspendTimeoutMillis": "20000",
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
    }
    return fields | {name: str(value) for name, value in extra.items()}


def pull(
    step: str,
    topic: str = "T",
    group: str = "G",
    *,
    code: int = PULL,
    options: Mapping[str, Any] | None = None,
    **extra: object,
) -> Ask:
    return Ask(step, code, pull_fields(topic, group, **extra), **(options or {}))


def topic_fields(name: str, queues: int = 4, **extra: object) -> dict[str, str]:
    fields = {
        "topic": name,
        "defaultTopic": "TBW102",
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
    return fields | {key: str(value) for key, value in extra.items()}


def create_topic(step: str, name: str = "T", queues: int = 4, **extra: object) -> Ask:
    return Ask(step, CREATE_TOPIC, topic_fields(name, queues, **extra))


def group_config(name: str, **extra: object) -> dict[str, Any]:
    config = {
        "attributes": {},
        "brokerId": 0,
        "consumeBroadcastEnable": True,
        "consumeEnable": True,
        "consumeFromMinEnable": True,
        "consumeMessageOrderly": False,
        "consumeTimeoutMinute": 15,
        "groupName": name,
        "groupRetryPolicy": {"type": "CUSTOMIZED"},
        "groupSysFlag": 0,
        "notifyConsumerIdsChangedEnable": True,
        "retryMaxTimes": 16,
        "retryQueueNums": 1,
        "whichBrokerWhenConsumeSlowly": 1,
    }
    return config | extra


def create_group(step: str, name: str = "G", **extra: object) -> Ask:
    return Ask(step, CREATE_GROUP, body=compact(group_config(name, **extra)))


def queue_ask(step: str, code: int, topic: str = "T", queue: int | str = 0, **extra: Any) -> Ask:
    """A question about one queue; what is no option of `Ask` becomes a field."""
    options = {name: extra.pop(name) for name in ("until_fields", "until_code", "binary", "on") if name in extra}
    fields = {"topic": topic, "queueId": str(queue)} | {name: str(value) for name, value in extra.items()}
    return Ask(step, code, fields, **options)


def stored(count: int, step: str = "", topic: str = "T", queue: int = 0) -> Ask:
    """Wait until a queue has `count` messages to read."""
    name = step or f"{topic} {queue} has {count}"
    return queue_ask(name, MAX_OFFSET, topic, queue, until_fields={"offset": str(count)})


def subscription(topic: str, expression: str = "*", version: int = 1_700_000_000_001, **extra: Any) -> dict[str, Any]:
    tags = [] if expression == "*" else [tag.strip() for tag in expression.split("||")]
    found = {
        "classFilterMode": False,
        "codeSet": [java_hash(tag) for tag in tags],
        "expressionType": "TAG",
        "subString": expression,
        "subVersion": version,
        "tagsSet": tags,
        "topic": topic,
    }
    return found | extra


def java_hash(text: str) -> int:
    value = 0
    for unit in struct.unpack(f">{len(text.encode('utf-16-be')) // 2}H", text.encode("utf-16-be")):
        value = (value * 31 + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def consumer(group: str, *subscriptions: dict[str, Any], **extra: Any) -> dict[str, Any]:
    found = {
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "consumeType": "CONSUME_PASSIVELY",
        "groupName": group,
        "messageModel": "CLUSTERING",
        "subscriptionDataSet": [*subscriptions, subscription(f"%RETRY%{group}")],
        "unitMode": False,
    }
    return found | extra


def heartbeat(
    step: str,
    client: str,
    *,
    consumers: Iterable[dict[str, Any]] = (),
    producers: Iterable[str] = (),
    on: str = "client",
    **extra: Any,
) -> Ask:
    body = {
        "clientID": client,
        "consumerDataSet": list(consumers),
        "heartbeatFingerprint": 0,
        "producerDataSet": [{"groupName": name} for name in producers],
        "withoutSub": False,
    }
    return Ask(step, HEARTBEAT, body=compact(body | extra), on=on)
