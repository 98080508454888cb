"""Offsets of queues and of consumers."""

from __future__ import annotations

from tests.golden.broker.scenarios.build import (
    EARLIEST_TIME,
    MAX_OFFSET,
    MIN_OFFSET,
    QUERY_OFFSET,
    SEARCH_OFFSET,
    UPDATE_OFFSET,
    compact,
    create_group,
    create_topic,
    pull,
    queue_ask,
    send,
    stored,
    without,
)
from tests.golden.broker.steps import Ask, Scenario


def _query(step: str, topic: str = "T", group: str = "G", queue: int = 0, **extra: str) -> Ask:
    return Ask(step, QUERY_OFFSET, {"consumerGroup": group, "topic": topic, "queueId": str(queue)} | extra)


def _update(step: str, offset: object, topic: str = "T", group: str = "G", queue: int = 0) -> Ask:
    fields = {"consumerGroup": group, "topic": topic, "queueId": str(queue), "commitOffset": str(offset)}
    return Ask(step, UPDATE_OFFSET, fields)


_CODES = {"max": MAX_OFFSET, "min": MIN_OFFSET, "earliest time": EARLIEST_TIME}
_ODD_QUEUES = {
    "empty queue": {},
    "queue out of range": {"queue": 99},
    "negative queue": {"queue": -1},
    "unknown topic": {"topic": "NONE"},
    "topic with a path": {"topic": "../x"},
    "empty topic": {"topic": ""},
    "queue that is no number": {"queue": "x"},
}

QUEUE_OFFSETS = Scenario(
    "queue-offsets",
    "largest, smallest, by time, and the time of the first message",
    [
        create_topic("create"),
        *(
            queue_ask(f"{what} of {where}", code, **odd)  # type: ignore[arg-type]
            for what, code in _CODES.items()
            for where, odd in _ODD_QUEUES.items()
        ),
        *(Ask(f"{what} without a queue", code, {"topic": "T"}) for what, code in _CODES.items()),
        *(Ask(f"{what} without a topic", code, {"queueId": "0"}) for what, code in _CODES.items()),
        *(
            queue_ask(f"by time of {where}", SEARCH_OFFSET, timestamp=0, **odd)  # type: ignore[arg-type]
            for where, odd in _ODD_QUEUES.items()
        ),
        send("a"),
        send("b"),
        send("c"),
        stored(3),
        queue_ask("max", MAX_OFFSET),
        queue_ask("max, committed", MAX_OFFSET, committed="true"),
        queue_ask("max, not committed", MAX_OFFSET, committed="false"),
        queue_ask("max, binary", MAX_OFFSET, binary=True),
        queue_ask("min", MIN_OFFSET),
        queue_ask("earliest time", EARLIEST_TIME),
        *(
            queue_ask(f"by time {what}{edge}", SEARCH_OFFSET, timestamp=time, **fields)
            for what, time in {
                "0": 0,
                "-1": -1,
                "long ago": 1_500_000_000_000,
                "of the future": 4_000_000_000_000,
            }.items()
            for edge, fields in {
                "": {},
                ", lower": {"boundaryType": "LOWER"},
                ", upper": {"boundaryType": "UPPER"},
                ", lower, small letters": {"boundaryType": "lower"},
                ", another edge": {"boundaryType": "MIDDLE"},
            }.items()
        ),
        queue_ask("by time that is no number", SEARCH_OFFSET, timestamp="x"),
        queue_ask("by no time", SEARCH_OFFSET),
        queue_ask("max on the second port", MAX_OFFSET, on="vip"),
    ],
)

GROUP_OFFSETS = Scenario(
    "group-offsets",
    "what consumers have committed",
    [
        create_topic("create"),
        _query("empty queue, group never seen"),
        _query("empty queue, zero not wanted", setZeroIfNotFound="false"),
        send("a"),
        send("b"),
        stored(2),
        _query("group never seen"),
        _query("group never seen, zero wanted", setZeroIfNotFound="true"),
        _query("group never seen, zero not wanted", setZeroIfNotFound="false"),
        _query("unknown topic", "NONE"),
        _query("topic with a path", "../x"),
        _query("group with a path", group="../x"),
        _query("queue out of range", queue=99),
        _query("negative queue", queue=-1),
        _update("update by an unknown group", 1),
        create_group("create the group"),
        _update("update", 1),
        _query("after the update"),
        _update("update backwards", 0),
        _query("after the update backwards"),
        _update("update beyond the end", 99),
        _query("beyond the end"),
        _update("update to the largest", 2**63 - 1),
        _query("largest"),
        _update("unknown topic's update", 1, "NONE"),
        _update("update of a topic with a path", 1, "../x"),
        _update("update of a queue out of range", 7, queue=99),
        _query("of a queue out of range after all", queue=99),
        _update("update to no number", "x"),
        Ask(
            "update one way",
            UPDATE_OFFSET,
            {"consumerGroup": "G", "topic": "T", "queueId": "1", "commitOffset": "5"},
            one_way=True,
        ),
        Ask(
            "after one way",
            QUERY_OFFSET,
            {"consumerGroup": "G", "topic": "T", "queueId": "1"},
            until_fields={"offset": "5"},
        ),
        *(
            Ask(
                f"query without {name}",
                QUERY_OFFSET,
                without({"consumerGroup": "G", "topic": "T", "queueId": "0"}, name),
            )
            for name in ("consumerGroup", "topic", "queueId")
        ),
        *(
            Ask(
                f"update without {name}",
                UPDATE_OFFSET,
                without({"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "1"}, name),
            )
            for name in ("consumerGroup", "topic", "queueId", "commitOffset")
        ),
        _update("update in another queue", 1, queue=2),
        Ask("all offsets", 43),
        Ask("all delay offsets", 45),
    ],
)

RESETS = Scenario(
    "resets",
    "offsets set back by an administrator, and what pulls are told",
    [
        create_topic("create", queues=2),
        create_group("create the group"),
        send("a"),
        send("b"),
        send("c"),
        stored(3),
        _update("update", 2),
        *(
            Ask(name, 222, {"topic": "T", "group": "G", "timestamp": "0", "isForce": "true"} | fields)
            for name, fields in {
                "to the start": {},
                "to the end": {"timestamp": "-1"},
                "to a time, one queue": {"queueId": "0", "timestamp": "1500000000000"},
                "to an offset": {"queueId": "0", "offset": "1"},
                "to an offset beyond the end": {"queueId": "0", "offset": "99"},
                "to a negative offset": {"queueId": "0", "offset": "-1"},
                "of all queues to an offset": {"queueId": "-1", "offset": "1"},
                "unknown topic": {"topic": "NONE"},
                "unknown group": {"group": "NONE"},
                "not forced": {"isForce": "false", "timestamp": "-1"},
                "to an offset at last": {"queueId": "0", "offset": "1"},
            }.items()
        ),
        _query("offset after the reset"),
        pull("pull after the reset", queueOffset=3),
        pull("next pull", queueOffset=1, maxMsgNums=1),
        _update("update after the pull", 2),
        _query("offset after that"),
        Ask("to the start again", 222, {"topic": "T", "group": "G", "timestamp": "0", "isForce": "true"}),
        _update("update while a reset waits", 3),
        _query("offset while a reset waits"),
        Ask("without isForce", 222, {"topic": "T", "group": "G", "timestamp": "0"}),
        create_group("create a second group", "G2"),
        Ask("clone", 314, {"srcGroup": "G", "destGroup": "G2", "topic": "T", "offline": "true"}),
        _query("cloned", group="G2", queue=1),
        Ask("clone from nobody", 314, {"srcGroup": "NONE", "destGroup": "G2", "topic": "T"}),
        Ask("clone an unknown topic", 314, {"srcGroup": "G", "destGroup": "G2", "topic": "NONE"}),
        Ask("corrected offsets, no filter", 308, {"topic": "T", "compareGroup": "G2"}),
        Ask("corrected offsets of nothing", 308, {"topic": "NONE", "compareGroup": "NONE"}),
        Ask("corrected offsets without a topic", 308, {"compareGroup": "NONE"}),
        Ask("all offsets", 43),
        Ask("body that is not wanted", 43, body=compact({"x": 1})),
        Ask("corrected offsets, one group left out", 308, {"topic": "T", "compareGroup": "G2", "filterGroups": "G"}),
    ],
)

ODD_OFFSETS = Scenario(
    "odd-offsets",
    "offsets that cannot be, and what is missing in resets and clones",
    [
        create_topic("create", queues=2),
        create_group("create the group"),
        send("a"),
        stored(1),
        _update("update to a negative", -3),
        _query("negative"),
        _update("update of a negative queue", 7, queue=-1),
        _query("of a negative queue after all", queue=-1),
        Ask(
            "reset of a queue out of range",
            222,
            {"topic": "T", "group": "G", "timestamp": "0", "isForce": "true", "queueId": "9", "offset": "1"},
        ),
        Ask("reset without a group", 222, {"topic": "T", "timestamp": "0", "isForce": "true"}),
        Ask("reset without a topic", 222, {"group": "G", "timestamp": "0", "isForce": "true"}),
        _update("update", 1),
        Ask("clone every topic", 314, {"srcGroup": "G", "destGroup": "G3", "offline": "true"}),
        Ask("clone without a destination", 314, {"srcGroup": "G", "topic": "T"}),
        Ask("clone without a source", 314, {"destGroup": "G", "topic": "T"}),
        Ask("all offsets", 43),
        Ask("corrected offsets, one group left out", 308, {"topic": "T", "compareGroup": "G2", "filterGroups": "G"}),
        Ask("all offsets are still there", 43),
        Ask("reset without a time", 222, {"topic": "T", "group": "G", "isForce": "true"}),
    ],
)
