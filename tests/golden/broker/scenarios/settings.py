"""What a broker's configuration changes in its answers."""

from __future__ import annotations

from tests.golden.broker.scenarios.build import (
    SUBSCRIPTION,
    SUSPEND,
    batch,
    consumer,
    create_topic,
    heartbeat,
    inner,
    pull,
    send,
    stored,
    subscription,
)
from tests.golden.broker.steps import Ask, Scenario

SCHEDULE = "SCHEDULE_TOPIC_XXXX"

SETTINGS = Scenario(
    "settings",
    "a broker of another region, with smaller limits",
    [
        send("send", "AUTO", defaultTopicQueueNums=8),
        Ask("topic made through TBW102", 351, {"topic": "AUTO"}),
        batch("batch", [inner(b"1", {"UNIQ_KEY": "B-1"}), inner(b"2", {"UNIQ_KEY": "B-2"})], "AUTO"),
        stored(3, topic="AUTO"),
        pull("two at most", "AUTO"),
        send("largest body", "AUTO", b"x" * 1000),
        send("one byte more", "AUTO", b"x" * 1001),
        send("the last level", "AUTO", props={"UNIQ_KEY": "D-1", "DELAY": "2"}),
        send("beyond the last level", "AUTO", props={"UNIQ_KEY": "D-2", "DELAY": "18"}),
        stored(2, topic=SCHEDULE, queue=1),
        pull("both wait in the last level", SCHEDULE, queueId=1),
        pull("does not wait long", "AUTO", queueId=1, sysFlag=SUBSCRIPTION | SUSPEND, suspendTimeoutMillis=600_000),
        send("through the topic of the cluster", "NEW", defaultTopic="DefaultCluster"),
        Ask("all topics", 21),
        Ask("system topics", 305),
    ],
    properties={
        "regionId": "eu",
        "traceOn": "false",
        "traceTopicEnable": "true",
        "defaultTopicQueueNums": "3",
        "maxMessageSize": "1000",
        "messageDelayLevel": "1s 2h",
        "maxTransferCountOnMessageInMemory": "2",
        "longPollingEnable": "false",
        "clusterTopicEnable": "false",
        "brokerTopicEnable": "false",
    },
)

ORDER_TOPICS = Scenario(
    "order-topics",
    "consumers of a topic that is read in order",
    [
        create_topic("create", order="true"),
        create_topic("create another", "T2"),
        heartbeat("come", "c1", consumers=[consumer("G", subscription("T"))]),
        Ask("its retry topic", 351, {"topic": "%RETRY%G"}),
        heartbeat("come to another", "c2", consumers=[consumer("G2", subscription("T2"))]),
        Ask("the other's retry topic", 351, {"topic": "%RETRY%G2"}),
        send("send", "T"),
    ],
)
