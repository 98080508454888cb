"""Sends that are refused, with nothing stored."""

from __future__ import annotations

from tests.golden.broker.scenarios.build import (
    SEND,
    SEND_V2,
    create_group,
    create_topic,
    letters,
    pull,
    send,
    send_fields,
    stored,
    without,
)
from tests.golden.broker.steps import Ask, Scenario

FORBIDDEN = (
    "SCHEDULE_TOPIC_XXXX",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    "SELF_TEST_TOPIC",
    "OFFSET_MOVED_EVENT",
)
NEEDED = (
    "producerGroup",
    "topic",
    "defaultTopic",
    "defaultTopicQueueNums",
    "queueId",
    "sysFlag",
    "bornTimestamp",
    "flag",
)
NUMBERS = (
    "defaultTopicQueueNums",
    "queueId",
    "sysFlag",
    "bornTimestamp",
    "flag",
    "reconsumeTimes",
    "maxReconsumeTimes",
)
BAD_TOPICS = {
    "path": "../x",
    "absolute path": "/etc/passwd",
    "dots": "..",
    "slash": "a/b",
    "backslash": "a\\b",
    "blank": "   ",
    "empty": "",
    "space": "a b",
    "dot": "a.b",
    "unicode": "thème",
    "newline": "a\nb",
    "nul": "a\0b",
    "hash": "a#b",
    "at": "a@b",
    "128 characters": "t" * 128,
    "256 characters": "t" * 256,
}


REFUSED_SENDS = Scenario(
    "refused-sends",
    "sends with something wrong in the header, and that they leave nothing",
    [
        create_topic("create"),
        *(send(f"to {name}", name) for name in FORBIDDEN),
        *(send(f"topic with {what}", name) for what, name in BAD_TOPICS.items()),
        send("topic of 127 characters", "t" * 127),
        send("topic with percent and bar", "a%b|c-d_e"),
        send("retry topic of 255 characters", "%RETRY%" + "g" * 248),
        send("retry topic of 256 characters", "%RETRY%" + "g" * 249),
        send("queue 4 of 4", queueId=4),
        send("queue of the largest number", queueId=2**31 - 1),
        *(Ask(f"no {name}", SEND_V2, letters(without(send_fields(), name)), b"x") for name in NEEDED),
        *(Ask(f"no {name}, long names", SEND, without(send_fields(), name), b"x") for name in ("topic", "queueId")),
        *(Ask(f"{name} that is no number", SEND_V2, letters(send_fields() | {name: "x"}), b"x") for name in NUMBERS),
        send("queue beyond an int", queueId=2**31),
        send("time beyond a long", bornTimestamp=2**63),
        send("queue with a plus", queueId="+1"),
        send("queue with a space", queueId=" 1"),
        send("queue empty", queueId=""),
        send("unit mode that is no boolean", unitMode="maybe"),
        Ask("no fields", SEND_V2, {}, b"x"),
        Ask("no fields, long names", SEND, {}, b"x"),
        Ask("letters with the code of long names", SEND, letters(send_fields()), b"x"),
        Ask("long names with the code of letters", SEND_V2, send_fields(), b"x"),
        send("no body", body=b""),
        stored(4),
        stored(1, queue=1),
        send("queue with a fraction", queueId="1.0"),
    ],
)

SIZES = Scenario(
    "sizes",
    "bodies and properties up to their limits and beyond",
    [
        create_topic("create"),
        send("largest body", body=b"x" * (4 << 20)),
        send("one byte more", body=b"x" * ((4 << 20) + 1)),
        send("far more", body=b"x" * (8 << 20)),
        send("largest properties", props="a\x01" + "v" * 32_600 + "\x02"),
        send("properties too long with what is added", props="a\x01" + "v" * 32_750 + "\x02"),
        send("properties too long", props="a\x01" + "v" * 40_000 + "\x02"),
        send("properties of several bytes a character", props="a\x01" + "日" * 12_000 + "\x02"),
        stored(2),
    ],
)

PROPERTIES = Scenario(
    "odd-properties",
    "properties that are not pairs",
    [
        create_topic("create"),
        send("no marks at all", props="garbage"),
        send("a name alone", props="name\x01\x02"),
        send("a value alone", props="\x01value\x02"),
        send("empty entries", props="\x02\x02\x02a\x01b\x02"),
        send("a name twice", props="a\x011\x02a\x012\x02"),
        send("a value with the first mark", props="a\x01b\x01c\x02"),
        send("only marks", props="\x01\x01\x02\x02"),
        send("control characters", props="a\x01\x00\x03\x1f\x02"),
        send("short entry", props="a\x01\x02b\x01c\x02"),
        send("DELAY that is no number", props={"UNIQ_KEY": "D-1", "DELAY": "x"}),
        send("DELAY zero", props={"UNIQ_KEY": "D-2", "DELAY": "0"}),
        send("DELAY negative", props={"UNIQ_KEY": "D-3", "DELAY": "-1"}),
        send("WAIT that is no boolean", props={"UNIQ_KEY": "D-4", "WAIT": "maybe"}),
        stored(12),
        pull("what was stored"),
    ],
)

RETRY_SENDS = Scenario(
    "retry-sends",
    "sends to retry topics, as orderly consumers and failed send-backs make them",
    [
        create_group("create the group", "G", retryMaxTimes=2),
        send("within the limit", "%RETRY%G", reconsumeTimes=1, maxReconsumeTimes=2),
        send("at the limit", "%RETRY%G", reconsumeTimes=2, maxReconsumeTimes=2),
        send("beyond the limit", "%RETRY%G", reconsumeTimes=3, maxReconsumeTimes=2),
        send("beyond the group's limit", "%RETRY%G", reconsumeTimes=3),
        stored(2, topic="%RETRY%G", step="retry has two"),
        pull("the retry records", "%RETRY%G"),
        stored(2, topic="%DLQ%G", step="two dead"),
        pull("the dead letters", "%DLQ%G"),
        Ask("configuration of the dead-letter topic", 351, {"topic": "%DLQ%G"}),
        Ask("configuration of the retry topic", 351, {"topic": "%RETRY%G"}),
    ],
)
