"""Messages that are taken, in every form a send has, and what is stored of them."""

from __future__ import annotations

from tests.golden.broker.scenarios.build import (
    MAX_OFFSET,
    SEND,
    SEND_BATCH,
    SEND_V2,
    batch,
    create_topic,
    inner,
    letters,
    properties,
    pull,
    queue_ask,
    send,
    send_fields,
    send_v1,
    stored,
    without,
)
from tests.golden.broker.steps import Ask, Scenario

TAGGED = {"KEYS": "k1 k2", "TAGS": "A", "UNIQ_KEY": "U-2", "WAIT": "true", "user": "wörter 日本"}


def _with_body_length(length: bytes) -> bytes:
    message = inner(b"1", {"a": "b"})
    return message[:16] + length + message[20:]


SENDING = Scenario(
    "sending",
    "sends in both forms and both codecs, one way and twice in a row, and the records they leave",
    [
        create_topic("create"),
        send("as Java", body="héllo".encode()),
        send_v1("as Go", props=TAGGED, flag=7),
        Ask("as Java, binary", SEND_V2, letters(send_fields(props={"UNIQ_KEY": "U-3"})), b"binary", binary=True),
        Ask("as Go, binary", SEND, send_fields(props={"UNIQ_KEY": "U-4"}), b"binary", binary=True),
        Ask("on the second port", SEND_V2, letters(send_fields(props={"UNIQ_KEY": "U-5"})), b"vip", on="vip"),
        send("without a unique key", props={}),
        Ask("without properties", SEND_V2, letters(without(send_fields(), "properties")), b"none"),
        Ask(
            "with the fields that must be there",
            SEND_V2,
            letters(without(send_fields(), "properties", "reconsumeTimes", "unitMode", "batch")),
            b"least",
        ),
        send("WAIT false", props={"UNIQ_KEY": "U-6", "WAIT": "false"}),
        send("a broker name", brokerName="broker-a"),
        send("system flags", sysFlag=1 | 2 | 0x100, props={"UNIQ_KEY": "U-7", "TAGS": "A||B"}),
        send("a negative flag, an old time", flag=-1, bornTimestamp=0),
        send("reconsumed", reconsumeTimes=3),
        send("properties without the last mark", props="UNIQ_KEY\x01U-8\x02a\x01b"),
        send("POP_CK is dropped", props={"UNIQ_KEY": "U-9", "POP_CK": "0 0 0 0 0 broker-a 0 0", "z": "1"}),
        send("names the broker adds itself", props={"CLUSTER": "mine", "MSG_REGION": "r", "TRACE_ON": "false"}),
        stored(16),
        pull("the records"),
        send("the last queue", queueId=3),
        send("any queue of one", "ONE", queueId=-1, defaultTopicQueueNums=1),
        stored(1, topic="ONE"),
        pull("the record of any queue", "ONE"),
        send("one way", "ONE", b"one way", options={"one_way": True}),
        stored(2, topic="ONE"),
        pull("the record sent one way", "ONE", queueOffset=1),
        send("to a system topic that may be sent to", "BenchmarkTest", queueId=1000),
        send("to the topic of the cluster", "DefaultCluster"),
        send("to the topic of the broker", "broker-a"),
        send("to TBW102 itself", "TBW102"),
    ],
)

BATCHES = Scenario(
    "batches",
    "many messages in one request",
    [
        create_topic("create"),
        batch(
            "a batch of three",
            [inner(b"1", {"UNIQ_KEY": "B-1", "KEYS": "k"}), inner(b"22", {"UNIQ_KEY": "B-2"}), inner(b"", {"a": "b"})],
        ),
        stored(3),
        pull("its records"),
        batch(
            "a batch of one", [inner(b"one", {"UNIQ_KEY": "B-4", "TAGS": "A"}, flag=9)], props="a\x01b\x02c\x01d\x02"
        ),
        stored(4),
        pull("the record of one", queueOffset=3),
        Ask(
            "code of a batch, flag of none",
            SEND_BATCH,
            letters(send_fields(props={"UNIQ_KEY": "B-5"})),
            b"plain",
        ),
        stored(5),
        pull("the plain record", queueOffset=4),
        Ask(
            "code of one, flag of a batch",
            SEND_V2,
            letters(send_fields(props={}, batch="true")),
            inner(b"x", {"UNIQ_KEY": "B-6"}) + inner(b"y", {"UNIQ_KEY": "B-7"}),
        ),
        Ask(
            "code of one by long names, flag of a batch",
            SEND,
            send_fields(props={}, batch="true"),
            inner(b"x", {"UNIQ_KEY": "B-8"}),
        ),
        stored(8),
    ],
)

LYING_BATCHES = Scenario(
    "lying-batches",
    "batches whose sizes do not add up: refused whole",
    [
        create_topic("create"),
        batch("no messages", []),
        batch("body longer than all", [_with_body_length(b"\0\xff\xff\xff")]),
        batch("body negative", [_with_body_length(b"\xff\xff\xff\xff")]),
        batch("properties longer than all", [inner(b"1", {})[:-2] + b"\x7f\xff"]),
        batch("properties negative", [inner(b"1", {})[:-2] + b"\xff\xff"]),
        batch("cut short", [inner(b"1", {"a": "b"})[:-1]]),
        batch("three bytes", [b"\0\0\0"]),
        batch("bytes after the last", [inner(b"1", {"UNIQ_KEY": "B-9"}), b"\0\0"]),
        batch("to a retry topic", [inner(b"1", {"a": "b"})], "%RETRY%G"),
        batch("to a long topic", [inner(b"1", {"a": "b"})], "t" * 128),
        batch("to a forbidden topic", [inner(b"1", {"a": "b"})], "SCHEDULE_TOPIC_XXXX"),
        batch("queue out of range", [inner(b"1", {"a": "b"})], queueId=4),
        batch("one message too large", [inner(b"x" * (4 << 20), {"a": "b"})]),
        batch("all together too large", [inner(b"x" * (1 << 20), {"a": "b"})] * 5),
        queue_ask("nothing was taken", MAX_OFFSET),
        batch("one with a delay", [inner(b"1", {"UNIQ_KEY": "B-10", "DELAY": "3"})]),
        stored(1),
        pull("the delay is only a property"),
        batch("batch with a delay", [inner(b"1", {"UNIQ_KEY": "B-11"})], props=properties({"DELAY": "3"})),
        queue_ask("still one", MAX_OFFSET),
    ],
)

LYING_SIZES = Scenario(
    "lying-sizes",
    "messages of a batch that claim another size than their parts have, which Apache does not look at",
    [
        create_topic("create"),
        batch("size too large", [inner(b"1", {"a": "b"}, lie=10)]),
        batch("size too small", [inner(b"1", {"a": "b"}, lie=-5)]),
        batch("size zero", [b"\0\0\0\0" + inner(b"1", {})[4:]]),
        batch("size negative", [b"\xff\xff\xff\xf0" + inner(b"1", {})[4:]]),
        batch("second one lies", [inner(b"1", {"a": "b"}), inner(b"2", {"a": "b"}, lie=100)]),
    ],
)

AUTO_CREATED = Scenario(
    "auto-created",
    "topics made by the first send, through TBW102",
    [
        send("four queues", "A4", defaultTopicQueueNums=4),
        Ask("its configuration", 351, {"topic": "A4"}),
        send("more queues than TBW102 has", "A16", defaultTopicQueueNums=16),
        Ask("configuration of more", 351, {"topic": "A16"}),
        send("negative number of queues", "AN", defaultTopicQueueNums=-1),
        Ask("configuration of negative", 351, {"topic": "AN"}),
        send("no queues", "A0", defaultTopicQueueNums=0),
        Ask("configuration of none", 351, {"topic": "A0"}),
        send("queue beyond the new topic", "AQ", defaultTopicQueueNums=2, queueId=5),
        Ask("configuration of beyond", 351, {"topic": "AQ"}),
        send("unit mode", "AU", unitMode="true"),
        Ask("configuration in unit mode", 351, {"topic": "AU"}),
        send("default topic that does not exist", "AX", defaultTopic="NONE"),
        send("default topic that may not be inherited", "AY", defaultTopic="A4"),
        send("default topic empty", "AZ", defaultTopic=""),
        send("default topic of the cluster", "AC", defaultTopic="DefaultCluster", defaultTopicQueueNums=16),
        Ask("configuration after the cluster", 351, {"topic": "AC"}),
        send("default topic of the broker", "AB", defaultTopic="broker-a", defaultTopicQueueNums=16),
        Ask("configuration after the broker", 351, {"topic": "AB"}),
        send("a retry topic", "%RETRY%G9", defaultTopic="NONE"),
        send("a retry topic through TBW102", "%RETRY%G8"),
        send("a dead-letter topic", "%DLQ%G8", defaultTopic="NONE"),
        Ask("configuration of one that was refused", 351, {"topic": "AX"}),
    ],
)

NOT_AUTO_CREATED = Scenario(
    "not-auto-created",
    "a broker that makes neither topics nor groups by itself",
    [
        send("unknown topic", "NEW"),
        send("through the cluster's topic", "NEW2", defaultTopic="DefaultCluster"),
        send("a retry topic", "%RETRY%G"),
        create_topic("create"),
        send("known topic"),
        pull("by an unknown group"),
        Ask("unknown group's offset", 14, {"consumerGroup": "G", "topic": "T", "queueId": "0"}),
        Ask(
            "update unknown group's offset",
            15,
            {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "1"},
        ),
        Ask("send back by an unknown group", 36, {"group": "G", "offset": "{offset:known topic}", "delayLevel": "1"}),
        Ask("configuration of TBW102", 351, {"topic": "TBW102"}),
        Ask("a system group", 352, {"group": "SELF_TEST_C_GROUP"}),
    ],
    properties={"autoCreateTopicEnable": "false", "autoCreateSubscriptionGroup": "false"},
)
