"""Delayed messages, messages sent back, dead letters, and queries for messages."""

from __future__ import annotations

from tests.golden.broker.scenarios.build import (
    MAX_OFFSET,
    QUERY,
    SEND_BACK,
    VIEW_MESSAGE,
    create_group,
    create_topic,
    pull,
    queue_ask,
    send,
    stored,
    without,
)
from tests.golden.broker.steps import Ask, Scenario

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
_KEY = {"topic": "T", "key": "k", "maxNum": "32", "beginTimestamp": "0", "endTimestamp": "9223372036854775807"}

DELAYS = Scenario(
    "delays",
    "delay levels: the record that waits and the one that is delivered",
    [
        create_topic("create"),
        send("one second", props={"UNIQ_KEY": "D-1", "DELAY": "1", "TAGS": "A", "KEYS": "k"}, queueId=2),
        send("two hours", props={"UNIQ_KEY": "D-18", "DELAY": "18"}),
        send("beyond the last level", props={"UNIQ_KEY": "D-99", "DELAY": "99"}),
        stored(1, topic=SCHEDULE, queue=0),
        stored(2, topic=SCHEDULE, queue=17),
        pull("the record that waits", SCHEDULE),
        pull("those that wait long", SCHEDULE, queueId=17),
        stored(1, "delivered", queue=2),
        pull("the delivered record", queueId=2),
        pull("by its tag", queueId=2, subscription="A"),
        Ask("by its key", QUERY, _KEY, until_code=0),
        Ask("all delay offsets", 45),
        send("to an unknown topic", "NEW", props={"UNIQ_KEY": "D-2", "DELAY": "17"}),
        Ask("configuration of that topic", 351, {"topic": "NEW"}),
        Ask("topic stats of the schedule", 202, {"topic": SCHEDULE}),
    ],
)


def _back(step: str, offset: str, group: str = "G", level: object = 0, **extra: str) -> Ask:
    fields = {"offset": offset, "group": group, "delayLevel": str(level), "originTopic": "T"}
    return Ask(step, SEND_BACK, fields | extra)


SENT_BACK = Scenario(
    "sent-back",
    "messages that a consumer sends back: retried, then dead",
    [
        create_topic("create"),
        create_group("create the group", retryMaxTimes=2),
        create_group("a group without retries", "NR", retryQueueNums=0),
        send("a", props={"UNIQ_KEY": "A", "TAGS": "A", "KEYS": "k", "WAIT": "true"}, flag=5),
        stored(1),
        _back("send back", "{offset:a}", originMsgId="ORIGIN", unitMode="false", maxReconsumeTimes="16"),
        stored(1, "waits in level 3", SCHEDULE, 2),
        pull("the record that waits", SCHEDULE, queueId=2),
        _back("send back with level 1", "{offset:a}", level=1),
        stored(1, "retried", "%RETRY%G"),
        pull("the retried record", "%RETRY%G"),
        _back("send back as dead", "{offset:a}", level=-1),
        stored(1, "one dead", "%DLQ%G"),
        pull("the dead record", "%DLQ%G"),
        _back("send back beyond the client's limit", "{offset:a}", maxReconsumeTimes="0"),
        stored(2, "two dead", "%DLQ%G"),
        pull("the second dead record", "%DLQ%G", queueOffset=1),
        Ask(
            "old client's limit does not count",
            SEND_BACK,
            {"offset": "{offset:a}", "group": "G", "delayLevel": "18", "originTopic": "T", "maxReconsumeTimes": "0"},
            version=100,
        ),
        _back("a level too large", "{offset:a}", level=99),
        _back("unit mode", "{offset:a}", level=17, unitMode="true"),
        Ask("configuration of the retry topic", 351, {"topic": "%RETRY%G"}),
        Ask("configuration of the dead-letter topic", 351, {"topic": "%DLQ%G"}),
        Ask("send back without the topic", SEND_BACK, {"offset": "{offset:a}", "group": "G", "delayLevel": "17"}),
        _back("of a group without retries", "{offset:a}", "NR"),
        _back("of a group never seen", "{offset:a}", "G9", 17),
        _back("of an empty group", "{offset:a}", ""),
        _back("of a group with a path", "{offset:a}", "../x"),
        _back("of nothing", "99999999"),
        _back("of a negative place", "-1"),
        _back("from the middle of a record", "10"),
        _back("of no number", "x"),
        _back("a level that is no number", "{offset:a}", level="x"),
        *(
            Ask(f"without {name}", SEND_BACK, without({"offset": "0", "group": "G", "delayLevel": "0"}, name))
            for name in ("offset", "group", "delayLevel")
        ),
        queue_ask("still two dead", MAX_OFFSET, "%DLQ%G"),
    ],
)

_CQ = {"topic": "T", "queueId": "0", "index": "0", "count": "10", "consumerGroup": "G"}

QUERIES = Scenario(
    "queries",
    "messages by key, by unique key, by id, by place in a queue",
    [
        create_topic("create"),
        send("a", props={"UNIQ_KEY": "UA", "KEYS": "k other", "TAGS": "A"}),
        send("b", props={"UNIQ_KEY": "UB", "KEYS": "k", "TAGS": "B"}, queueId=1),
        send("c", props={"KEYS": "c"}),
        stored(2),
        Ask(
            "by a unique key the broker made",
            QUERY,
            _KEY | {"key": "{key:c}", "_UNIQUE_KEY_QUERY": "true"},
            until_code=0,
        ),
        Ask("by key", QUERY, _KEY),
        Ask("by the other key", QUERY, _KEY | {"key": "other"}),
        Ask("by unique key", QUERY, _KEY | {"key": "UA", "_UNIQUE_KEY_QUERY": "true"}),
        Ask("unique key as a plain key", QUERY, _KEY | {"key": "UA"}),
        Ask("one only", QUERY, _KEY | {"maxNum": "1"}),
        Ask("none wanted", QUERY, _KEY | {"maxNum": "0"}),
        Ask("negative number", QUERY, _KEY | {"maxNum": "-1"}),
        Ask("too early", QUERY, _KEY | {"endTimestamp": "1500000000000"}),
        Ask("too late", QUERY, _KEY | {"beginTimestamp": "4000000000000"}),
        Ask("unknown key", QUERY, _KEY | {"key": "none"}),
        Ask("empty key", QUERY, _KEY | {"key": ""}),
        Ask("unknown topic", QUERY, _KEY | {"topic": "NONE"}),
        Ask("topic with a path", QUERY, _KEY | {"topic": "../x"}),
        *(Ask(f"without {name}", QUERY, without(_KEY, name)) for name in _KEY),
        Ask("number that is no number", QUERY, _KEY | {"maxNum": "x"}),
        Ask("by id", VIEW_MESSAGE, {"offset": "{offset:a}"}),
        Ask("by id, with the topic", VIEW_MESSAGE, {"offset": "{offset:b}", "topic": "T"}),
        Ask("by id, with another topic", VIEW_MESSAGE, {"offset": "{offset:b}", "topic": "NONE"}),
        Ask("by id, binary", VIEW_MESSAGE, {"offset": "{offset:a}"}, binary=True),
        Ask("by id of nothing", VIEW_MESSAGE, {"offset": "99999999"}),
        Ask("by a negative id", VIEW_MESSAGE, {"offset": "-1"}),
        Ask("by an id inside a record", VIEW_MESSAGE, {"offset": "10"}),
        Ask("by no number", VIEW_MESSAGE, {"offset": "x"}),
        Ask("by no id", VIEW_MESSAGE),
        Ask("the queue", 321, _CQ),
        Ask("the queue, two only", 321, _CQ | {"index": "1", "count": "1"}),
        Ask("the queue beyond its end", 321, _CQ | {"index": "99"}),
        Ask("the queue below its start", 321, _CQ | {"index": "-1"}),
        Ask("the queue, none wanted", 321, _CQ | {"count": "0"}),
        Ask("the queue for nobody", 321, without(_CQ, "consumerGroup")),
        Ask("an empty queue", 321, _CQ | {"queueId": "3"}),
        Ask("a queue out of range", 321, _CQ | {"queueId": "99"}),
        Ask("the queue of an unknown topic", 321, _CQ | {"topic": "NONE"}),
        Ask("the queue of no topic", 321, without(_CQ, "topic")),
        Ask("by key on the second port", QUERY, _KEY, on="vip"),
    ],
)
