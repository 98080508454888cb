"""What administrators ask about groups."""

from __future__ import annotations

from tests.golden.broker.scenarios.build import (
    CONSUME_STATS,
    CREATE_GROUP,
    UPDATE_OFFSET,
    compact,
    consumer,
    create_group,
    create_topic,
    group_config,
    heartbeat,
    pull,
    send,
    stored,
    subscription,
)
from tests.golden.broker.steps import Ask, Close, Scenario


def _config(step: str, group: str) -> Ask:
    return Ask(step, 352, {"group": group})


def _committed(step: str, group: str, topic: str, offset: int, queue: int = 0) -> Ask:
    fields = {"consumerGroup": group, "topic": topic, "queueId": str(queue), "commitOffset": str(offset)}
    return Ask(step, UPDATE_OFFSET, fields)


GROUPS = Scenario(
    "groups",
    "groups created, changed, listed and deleted",
    [
        Ask("all groups of a new broker", 201),
        create_group("create"),
        _config("as created", "G"),
        create_group("change", retryMaxTimes=3, retryQueueNums=2, consumeEnable=False, brokerId=1),
        _config("as changed", "G"),
        Ask("only a name", CREATE_GROUP, body=b'{"groupName":"N"}'),
        _config("only a name as created", "N"),
        create_group(
            "with a retry policy",
            "RP",
            groupRetryPolicy={
                "type": "EXPONENTIAL",
                "exponentialRetryPolicy": {"initial": 1000, "max": 5000, "multiplier": 2},
            },
        ),
        _config("retry policy as created", "RP"),
        create_group("with attributes", "AT", attributes={"+x": "1"}),
        create_group("name with a path", "../x"),
        create_group("name empty", ""),
        create_group("name too long", "g" * 256),
        create_group("name of 120", "g" * 120),
        create_group("name of 121", "h" * 121),
        create_group("a system group", "TOOLS_CONSUMER"),
        create_group("unknown members", "UM", future=1),
        create_group("number that is none", "NN", retryMaxTimes="x"),
        create_group("no end of retries", "RM", retryMaxTimes=-1),
        Ask("no body", CREATE_GROUP),
        Ask("no JSON", CREATE_GROUP, body=b"no json"),
        Ask("an empty object", CREATE_GROUP, body=b"{}"),
        Ask("list", 225, body=compact({"groupConfigList": [group_config("L1"), group_config("L2", retryMaxTimes=1)]})),
        _config("second of the list", "L2"),
        Ask("empty list", 225, body=compact({"groupConfigList": []})),
        Ask("list without a body", 225),
        Ask("list that is no JSON", 225, body=b"no json"),
        _config("configuration of nothing", "NONE"),
        _config("configuration of a path", "../x"),
        Ask("configuration without a group", 352),
        Ask("forbidden", 353, {"group": "G", "topic": "T"}),
        Ask("forbid", 353, {"group": "G", "topic": "T", "readable": "false"}),
        Ask("allow again", 353, {"group": "G", "topic": "T", "readable": "true"}),
        Ask("forbid without a topic", 353, {"group": "G", "readable": "false"}),
        Ask("delete", 207, {"groupName": "L2", "cleanOffset": "true"}),
        Ask("delete again", 207, {"groupName": "L2", "cleanOffset": "true"}),
        Ask("delete without a name", 207),
        Ask("all groups at last", 201),
        Ask("all groups, by pages", 201, {"groupSeq": "0", "maxGroupNum": "5"}),
    ],
)

CONSUME_STATUS = Scenario(
    "consume-status",
    "how far groups have read",
    [
        create_topic("create", queues=2),
        create_topic("create another", "T2", queues=1),
        create_group("create the group"),
        Ask("stats of nobody", CONSUME_STATS, {"consumerGroup": "NONE"}),
        Ask("stats before anything", CONSUME_STATS, {"consumerGroup": "G"}),
        Ask("stats of all groups, none", 317, {"isOrder": "false"}),
        send("a"),
        send("b"),
        send("c", queueId=1),
        send("d", "T2"),
        stored(2),
        stored(1, queue=1),
        stored(1, topic="T2"),
        _committed("commit", "G", "T", 1),
        _committed("commit of the other topic", "G", "T2", 1),
        Ask("stats", CONSUME_STATS, {"consumerGroup": "G"}),
        Ask("stats of one topic", CONSUME_STATS, {"consumerGroup": "G", "topic": "T"}),
        Ask("stats of a list", CONSUME_STATS, {"consumerGroup": "G", "topicList": "T2;T"}),
        Ask("stats of a topic never read", CONSUME_STATS, {"consumerGroup": "G", "topic": "NONE"}),
        Ask("stats of a topic of others", CONSUME_STATS, {"consumerGroup": "G9", "topic": "T"}),
        Ask("stats without a group", CONSUME_STATS),
        pull("pull further", queueOffset=1),
        Ask("stats after the pull", CONSUME_STATS, {"consumerGroup": "G", "topic": "T"}),
        Ask("stats of all groups", 317, {"isOrder": "false"}),
        Ask("stats of all orderly groups", 317, {"isOrder": "true"}),
        Ask("stats of all groups without a word on order", 317),
        heartbeat("come online for one topic", "c1", consumers=[consumer("G", subscription("T"))], on="c1"),
        Ask("stats online", CONSUME_STATS, {"consumerGroup": "G"}),
        Ask("stats online, of the topic not subscribed", CONSUME_STATS, {"consumerGroup": "G", "topic": "T2"}),
        Close("c1"),
        Ask("offsets", 43),
        Ask("delete the group", 207, {"groupName": "G"}),
        Ask("offsets stay", 43),
        create_group("create it again"),
        Ask("delete with its offsets", 207, {"groupName": "G", "cleanOffset": "true"}),
        Ask("offsets are gone", 43),
    ],
)

ODD_GROUPS = Scenario(
    "odd-groups",
    "groups with numbers that mean nothing, and groups that Apache makes again while it deletes them",
    [
        create_group("negative retry queues", "NEG", retryQueueNums=-1),
        create_group("delete me", "L1"),
        create_group("delete me as 4.9 does", "N"),
        Ask("delete", 207, {"groupName": "L1"}),
        Ask("delete as 4.9", 207, {"groupName": "N", "removeOffset": "true"}),
        Ask("all groups", 201),
    ],
)
