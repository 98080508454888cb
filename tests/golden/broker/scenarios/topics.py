"""What administrators ask about topics."""

from __future__ import annotations

from tests.golden.broker.scenarios.build import (
    CREATE_TOPIC,
    DELETE_TOPIC,
    TOPIC_STATS,
    compact,
    create_topic,
    pull,
    send,
    stored,
    topic_fields,
    without,
)
from tests.golden.broker.steps import Ask, Scenario


def _config(step: str, topic: str) -> Ask:
    return Ask(step, 351, {"topic": topic})


def _listed(name: str, **extra: object) -> dict[str, object]:
    config: dict[str, object] = {
        "attributes": {},
        "order": False,
        "perm": 6,
        "readQueueNums": 2,
        "topicFilterType": "SINGLE_TAG",
        "topicName": name,
        "topicSysFlag": 0,
        "writeQueueNums": 2,
    }
    return config | extra


_NEEDED = ("topic", "defaultTopic", "readQueueNums", "writeQueueNums", "perm", "topicFilterType", "order")

TOPICS = Scenario(
    "topics",
    "topics created, changed, listed and deleted",
    [
        Ask("all topics of a new broker", 21),
        Ask("system topics", 305),
        create_topic("create"),
        _config("as created", "T"),
        create_topic("the same again"),
        create_topic("change", readQueueNums=8, writeQueueNums=2, perm=4, order="true", topicSysFlag=3),
        _config("as changed", "T"),
        create_topic("multi tags", "MT", topicFilterType="MULTI_TAG"),
        _config("multi tags as created", "MT"),
        create_topic("with attributes", "AT", attributes="+message.type=NORMAL"),
        _config("attributes as created", "AT"),
        create_topic("attributes changed", "AT", attributes="+message.type=FIFO"),
        create_topic("attributes taken away", "AT", attributes="-message.type"),
        _config("attributes as changed", "AT"),
        create_topic("unknown attribute", "AX", attributes="+no.such=1"),
        create_topic("attribute that is not allowed", "AY", attributes="+message.type=NONE"),
        create_topic("attributes without a sign", "AZ", attributes="message.type=NORMAL"),
        create_topic("batch queue", "BQ", attributes="+queue.type=BatchCQ"),
        _config("batch queue as created", "BQ"),
        _config("not created", "AX"),
        create_topic("many queues", "MANY", queues=1024),
        create_topic("no queues", "ZERO", queues=0),
        create_topic("perm 0", "P0", perm=0),
        create_topic("perm 7", "P7", perm=7),
        create_topic("unknown filter type", "UF", topicFilterType="NONE"),
        create_topic("a system topic", "TBW102"),
        create_topic("another system topic", "SCHEDULE_TOPIC_XXXX"),
        create_topic("a topic with the system's prefix", "rmq_sys_x"),
        create_topic("the topic of the cluster", "DefaultCluster"),
        create_topic("a retry topic", "%RETRY%G", queues=2),
        create_topic("name with a path", "../x"),
        create_topic("name empty", ""),
        create_topic("name too long", "t" * 128),
        create_topic("name of 127", "t" * 127),
        create_topic("queues that are no number", "QN", readQueueNums="x"),
        *(Ask(f"without {name}", CREATE_TOPIC, without(topic_fields(f"W-{name}"), name)) for name in _NEEDED),
        Ask("without fields", CREATE_TOPIC),
        Ask("create, binary", CREATE_TOPIC, topic_fields("BIN"), binary=True),
        Ask("on the second port", CREATE_TOPIC, topic_fields("VIP"), on="vip"),
        Ask("list", 18, body=compact({"topicConfigList": [_listed("L1"), _listed("L2", perm=4)]})),
        _config("first of the list", "L1"),
        _config("second of the list", "L2"),
        Ask("list with a bad name", 18, body=compact({"topicConfigList": [_listed("L3"), _listed("../x")]})),
        _config("first of the list with a bad name", "L3"),
        Ask("list with a system topic", 18, body=compact({"topicConfigList": [_listed("TBW102")]})),
        Ask("empty list", 18, body=compact({"topicConfigList": []})),
        Ask("list without a body", 18),
        Ask("list that is no JSON", 18, body=b"no json"),
        _config("configuration of nothing", "NONE"),
        Ask("configuration without a topic", 351),
        Ask("configuration, asked locally", 351, {"topic": "T", "lo": "true"}),
        Ask("delete", DELETE_TOPIC, {"topic": "T"}),
        _config("deleted", "T"),
        Ask("delete again", DELETE_TOPIC, {"topic": "T"}),
        Ask("delete a system topic", DELETE_TOPIC, {"topic": "TBW102"}),
        Ask("delete a path", DELETE_TOPIC, {"topic": "../x"}),
        Ask("delete nothing", DELETE_TOPIC, {"topic": ""}),
        Ask("delete without a topic", DELETE_TOPIC),
        Ask("all topics at last", 21),
        Ask("all topics, by pages", 21, {"topicSeq": "0", "maxTopicNum": "5"}),
    ],
)

TOPIC_STATUS = Scenario(
    "topic-status",
    "what is in topics, and who reads it",
    [
        create_topic("create", queues=2),
        Ask("stats of an empty topic", TOPIC_STATS, {"topic": "T"}),
        send("a"),
        send("b"),
        send("c", queueId=1),
        stored(2),
        stored(1, queue=1),
        Ask("stats", TOPIC_STATS, {"topic": "T"}),
        Ask("stats of nothing", TOPIC_STATS, {"topic": "NONE"}),
        Ask("stats without a topic", TOPIC_STATS),
        Ask("who reads it, nobody", 300, {"topic": "T"}),
        pull("a pull"),
        Ask("offset", 15, {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "1"}),
        Ask("who reads it", 300, {"topic": "T"}),
        Ask("who reads nothing", 300, {"topic": "NONE"}),
        Ask("who reads, without a topic", 300),
        Ask("topics of the group", 343, {"group": "G"}),
        Ask("topics of no group", 343),
        Ask("time span", 303, {"topic": "T", "group": "G"}),
        Ask("time span of nobody", 303, {"topic": "T", "group": "NONE"}),
        Ask("time span of nothing", 303, {"topic": "NONE", "group": "G"}),
        Ask("time span without a group", 303, {"topic": "T"}),
        Ask("stats data of puts", 315, {"statsName": "TOPIC_PUT_NUMS", "statsKey": "T"}),
        Ask("stats data of a group", 315, {"statsName": "GROUP_GET_NUMS", "statsKey": "T@G"}),
        Ask("stats data of nothing", 315, {"statsName": "TOPIC_PUT_NUMS", "statsKey": "NONE"}),
        Ask("stats data by no such name", 315, {"statsName": "NONE", "statsKey": "T"}),
        Ask("stats data without a key", 315, {"statsName": "TOPIC_PUT_NUMS"}),
        Ask("clean expired queues", 306),
        Ask("clean unused topics", 316),
        Ask("delete expired files", 329),
        Ask("stats after cleaning", TOPIC_STATS, {"topic": "T"}),
        Ask("delete the topic", DELETE_TOPIC, {"topic": "T"}),
        Ask("who reads it once deleted", 300, {"topic": "T"}),
        Ask("offsets once deleted", 43),
        Ask("stats once deleted", TOPIC_STATS, {"topic": "T"}),
    ],
)

ODD_TOPICS = Scenario(
    "odd-topics",
    "topics with numbers that mean nothing",
    [
        create_topic("negative queues", "NEG", queues=-1),
        _config("negative as created", "NEG"),
        create_topic("a million queues", "MILLION", queues=1_000_000),
        create_topic("perm 99", "P99", perm=99),
        _config("perm 99 as created", "P99"),
        create_topic("negative perm", "PN", perm=-1),
    ],
)
