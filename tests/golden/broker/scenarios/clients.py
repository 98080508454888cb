"""Heartbeats, lists of clients, notices of change, locks."""

from __future__ import annotations

from typing import Any

from tests.golden.broker.scenarios.build import (
    CHECK_CLIENT,
    CONSUMER_LIST,
    HEARTBEAT,
    IDS_CHANGED,
    LOCK,
    UNLOCK,
    UNREGISTER_CLIENT,
    compact,
    consumer,
    create_group,
    create_topic,
    heartbeat,
    subscription,
    without,
)
from tests.golden.broker.steps import Ask, Close, Push, Scenario


def _ids(step: str, group: str = "G", **options: Any) -> Ask:
    return Ask(step, CONSUMER_LIST, {"consumerGroup": group}, **options)


def _leave(step: str, client: str, *, on: str = "client", **groups: str) -> Ask:
    return Ask(step, UNREGISTER_CLIENT, {"clientID": client} | groups, on=on)


G_ON_T = consumer("G", subscription("T"))

CLIENTS = Scenario(
    "clients",
    "consumers and producers come, change, and go",
    [
        create_topic("create"),
        _ids("nobody"),
        Ask("connections of nobody", 203, {"consumerGroup": "G"}),
        Ask("producers of nobody", 204, {"producerGroup": "P"}),
        Ask("all producers, none", 328),
        heartbeat("producer", "p1", producers=["P", "CLIENT_INNER_PRODUCER"], on="p1"),
        Ask("producers", 204, {"producerGroup": "P"}),
        Ask("all producers", 328),
        heartbeat("first consumer", "c1", consumers=[G_ON_T], on="c1"),
        Push("notice of the first", "c1", IDS_CHANGED),
        _ids("one"),
        Ask("configuration of the retry topic", 351, {"topic": "%RETRY%G"}),
        Ask("configuration of the group", 352, {"group": "G"}),
        Ask("connections", 203, {"consumerGroup": "G"}),
        heartbeat("the same again", "c1", consumers=[G_ON_T], on="c1"),
        heartbeat("second consumer", "c2", consumers=[G_ON_T], on="c2"),
        Push("notice of the second, to the first", "c1", IDS_CHANGED),
        Push("notice of the second, to itself", "c2", IDS_CHANGED),
        _ids("two"),
        Ask("topics of the group", 343, {"group": "G"}),
        Ask("its subscription", 345, {"group": "G", "topic": "T"}),
        Ask("subscription of an unknown topic", 345, {"group": "G", "topic": "NONE"}),
        Ask("subscription of an unknown group", 345, {"group": "NONE", "topic": "T"}),
        Ask("subscription without a topic", 345, {"group": "G"}),
        Ask("topics of an unknown group", 343, {"group": "NONE"}),
        Ask("who consumes the topic", 300, {"topic": "T"}),
        heartbeat(
            "another subscription",
            "c1",
            consumers=[consumer("G", subscription("T", "A", 1_700_000_000_009), subscription("T2"))],
            on="c1",
        ),
        Push("notice of the change", "c2", IDS_CHANGED),
        Ask("connections after the change", 203, {"consumerGroup": "G"}),
        heartbeat("an older subscription", "c1", consumers=[consumer("G", subscription("T", "B", 5))], on="c1"),
        Ask("connections after the older", 203, {"consumerGroup": "G"}),
        _leave("leave", "c2", consumerGroup="G", on="c2"),
        _ids("one again", until_body=b'["c1"]'),
        Close("c1"),
        _ids("none left", until_code=1),
        Ask("connections of none left", 203, {"consumerGroup": "G"}, until_code=206),
        _leave("leave without having come", "c9", consumerGroup="G", producerGroup="P"),
        _leave("leave a group never seen", "c9", consumerGroup="NONE"),
        Ask("leave without an id", UNREGISTER_CLIENT, {"consumerGroup": "G"}),
        Ask("ids without a group", CONSUMER_LIST),
        _ids("ids of an empty group", ""),
        Ask("connections without a group", 203),
        Ask("producers without a group", 204),
        Close("p1"),
        Ask("producers after they closed", 204, {"producerGroup": "P"}, until_code=1),
        heartbeat("broadcasting", "b1", consumers=[consumer("BG", subscription("T"), messageModel="BROADCASTING")]),
        Ask("connections, broadcasting", 203, {"consumerGroup": "BG"}),
        heartbeat(
            "actively, from a time",
            "l1",
            consumers=[
                consumer(
                    "LG",
                    subscription("T"),
                    consumeType="CONSUME_ACTIVELY",
                    consumeFromWhere="CONSUME_FROM_TIMESTAMP",
                    unitMode=True,
                )
            ],
        ),
        Ask("connections, actively", 203, {"consumerGroup": "LG"}),
        Ask("configuration of the unit's retry topic", 351, {"topic": "%RETRY%LG"}),
    ],
)

ODD_HEARTBEATS = Scenario(
    "odd-heartbeats",
    "heartbeats with something wrong, and the second form",
    [
        create_topic("create"),
        create_group("a group without retries", "NR", retryQueueNums=0),
        create_group("a group with three retry queues", "R3", retryQueueNums=3),
        Ask("no body", HEARTBEAT),
        Ask("no JSON", HEARTBEAT, body=b"no json"),
        Ask("an array", HEARTBEAT, body=b"[]"),
        Ask("an empty object", HEARTBEAT, body=b"{}"),
        Ask("only an id", HEARTBEAT, body=b'{"clientID":"x"}'),
        heartbeat("no id", "", consumers=[G_ON_T]),
        Ask(
            "sets that are null",
            HEARTBEAT,
            body=b'{"clientID":"x","consumerDataSet":null,"producerDataSet":null}',
        ),
        heartbeat("group with a path", "x1", consumers=[consumer("../x", subscription("T"))]),
        heartbeat("group empty", "x2", consumers=[consumer("", subscription("T"))]),
        heartbeat("group of 256", "x3", consumers=[consumer("g" * 256, subscription("T"))]),
        heartbeat("unknown consume type", "x4", consumers=[consumer("X4", subscription("T"), consumeType="NONE")]),
        heartbeat("unknown model", "x5", consumers=[consumer("X5", subscription("T"), messageModel="NONE")]),
        heartbeat("no subscriptions", "x6", consumers=[consumer("X6") | {"subscriptionDataSet": []}]),
        heartbeat("subscriptions null", "x7", consumers=[consumer("X7") | {"subscriptionDataSet": None}]),
        heartbeat("unknown members", "x8", consumers=[consumer("X8", subscription("T"), future=1)], future={"a": [1]}),
        heartbeat("without retries", "x10", consumers=[consumer("NR", subscription("T"))]),
        Ask("no retry topic for it", 351, {"topic": "%RETRY%NR"}),
        heartbeat("three retry queues", "x11", consumers=[consumer("R3", subscription("T"))]),
        Ask("retry topic with three queues", 351, {"topic": "%RETRY%R3"}),
        heartbeat("a producer group with a path", "x12", producers=["../x"]),
        heartbeat("second form", "v2", consumers=[consumer("V2", subscription("T"))], heartbeatFingerprint=77),
        heartbeat(
            "second form, without subscription",
            "v2",
            consumers=[consumer("V2") | {"subscriptionDataSet": []}],
            heartbeatFingerprint=77,
            withoutSub=True,
        ),
        Ask("connections of the second form", 203, {"consumerGroup": "V2"}),
        heartbeat(
            "second form, another print",
            "v2",
            consumers=[consumer("V2", subscription("T", "A", 1_800_000_000_000))],
            heartbeatFingerprint=78,
        ),
        heartbeat(
            "second form, a stranger without subscription",
            "v9",
            consumers=[consumer("V9") | {"subscriptionDataSet": []}],
            heartbeatFingerprint=5,
            withoutSub=True,
            on="v9",
        ),
        Ask(
            "check a client",
            CHECK_CLIENT,
            body=compact(
                {"clientId": "x", "group": "G", "namespace": "", "subscriptionData": subscription("T", "A||B")}
            ),
        ),
        Ask(
            "check SQL",
            CHECK_CLIENT,
            body=compact(
                {"clientId": "x", "group": "G", "subscriptionData": subscription("T", "a > 1", expressionType="SQL92")}
            ),
        ),
        Ask("check without a body", CHECK_CLIENT),
        Ask("check an empty object", CHECK_CLIENT, body=b"{}"),
        Ask("check no JSON", CHECK_CLIENT, body=b"no json"),
        Ask(
            "heartbeat on the second port",
            HEARTBEAT,
            body=compact({"clientID": "vip", "producerDataSet": [{"groupName": "VP"}], "consumerDataSet": []}),
            on="vip",
        ),
    ],
)


def _queues(*numbers: int, topic: str = "T", broker: str = "broker-a") -> list[dict[str, Any]]:
    return [{"brokerName": broker, "queueId": number, "topic": topic} for number in numbers]


def _lock(
    step: str, client: str, queues: list[dict[str, Any]], group: str = "G", *, code: int = LOCK, **extra: Any
) -> Ask:
    body = {"clientId": client, "consumerGroup": group, "mqSet": queues, "onlyThisBroker": False}
    return Ask(step, code, body=compact(body | extra))


LOCKS = Scenario(
    "locks",
    "queues locked for orderly consumers",
    [
        create_topic("create"),
        _lock("lock two", "c1", _queues(0, 1)),
        _lock("lock them again", "c1", _queues(0, 1)),
        _lock("another client wants one, and a free one", "c2", _queues(1, 2)),
        _lock("another group", "c2", _queues(0, 1), "G2"),
        _lock("another broker's queue", "c1", _queues(0, broker="broker-b")),
        _lock("unknown topic", "c1", _queues(0, topic="NONE")),
        _lock("queue out of range", "c1", _queues(99, -1)),
        _lock("no queues", "c1", []),
        _lock("only this broker", "c1", _queues(3), onlyThisBroker=True),
        _lock("unlock what another has", "c2", _queues(0, 1), code=UNLOCK),
        _lock("still locked", "c2", _queues(0, 1)),
        _lock("unlock", "c1", _queues(0, 1), code=UNLOCK),
        _lock("free now", "c2", _queues(0, 1)),
        _lock("unlock of a group never seen", "c2", _queues(0), "NONE", code=UNLOCK),
        Ask("lock without a body", LOCK),
        Ask("unlock without a body", UNLOCK),
        Ask("lock no JSON", LOCK, body=b"no json"),
        Ask("unlock no JSON", UNLOCK, body=b"no json"),
        Ask("lock an empty object", LOCK, body=b"{}"),
        Ask("unlock an empty object", UNLOCK, body=b"{}"),
        Ask("lock without queues", LOCK, body=compact({"clientId": "c1", "consumerGroup": "G"})),
        Ask("lock without a client", LOCK, body=compact({"consumerGroup": "G", "mqSet": _queues(0)})),
        Ask("lock without a group", LOCK, body=compact({"clientId": "c1", "mqSet": _queues(0)})),
        Ask(
            "lock a queue without a topic",
            LOCK,
            body=compact(
                {"clientId": "c1", "consumerGroup": "G", "mqSet": [without({"brokerName": "b", "queueId": "0"}, "x")]}
            ),
        ),
    ],
)

RUNNING_INFO = Scenario(
    "relays",
    "questions that the broker passes on to a consumer",
    [
        create_topic("create"),
        Ask("running info of nobody", 307, {"consumerGroup": "G", "clientId": "c1", "jstackEnable": "false"}),
        Ask("running info without a client", 307, {"consumerGroup": "G"}),
        Ask("running info without a group", 307, {"clientId": "c1"}),
        heartbeat("old consumer", "c1", consumers=[G_ON_T]),
        Ask(
            "consume directly by nobody",
            309,
            {"consumerGroup": "G", "clientId": "c9", "msgId": "7F00000100002A9F0000000000000000"},
        ),
        Ask("consume directly without a client", 309, {"consumerGroup": "G"}),
        Ask("status of nobody", 223, {"topic": "T", "group": "NONE"}),
        Ask("status without a group", 223, {"topic": "T"}),
    ],
)
