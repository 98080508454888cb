"""What administrators ask about the broker itself, and what is no question at all."""

from __future__ import annotations

from typing import Any

from tests.golden.broker.scenarios.build import compact, consumer, create_topic, heartbeat, send, subscription
from tests.golden.broker.steps import Ask, Scenario

UPDATE_CONFIG, GET_CONFIG, RUNTIME_INFO = 25, 26, 28
_HEADER = '{"code":%s,"extFields":{},"flag":0,"language":"JAVA","opaque":OPAQUE,"version":513}'

BROKER = Scenario(
    "broker",
    "status and configuration",
    [
        Ask("status", RUNTIME_INFO),
        Ask("configuration", GET_CONFIG),
        Ask("update", UPDATE_CONFIG, body=b"flushConsumerOffsetInterval=7000\n"),
        Ask("update two", UPDATE_CONFIG, body=b"brokerPermission=4\nlongPollingEnable=false\n"),
        Ask("update back", UPDATE_CONFIG, body=b"brokerPermission=6\nlongPollingEnable=true\n"),
        Ask("update an unknown key", UPDATE_CONFIG, body=b"noSuchKey=1\n"),
        Ask("update the black list", UPDATE_CONFIG, body=b"configBlackList=x\n"),
        Ask("update a path", UPDATE_CONFIG, body=b"brokerConfigPath=/tmp/x\n"),
        Ask(
            "update one of the black list beside another",
            UPDATE_CONFIG,
            body=b"brokerPermission=4\nbrokerConfigPath=/x\n",
        ),
        Ask("update the store's path", UPDATE_CONFIG, body=b"storePathRootDir=/tmp/x\n"),
        Ask("update a number to text", UPDATE_CONFIG, body=b"flushConsumerOffsetInterval=x\n"),
        Ask("update without a body", UPDATE_CONFIG),
        Ask("update nothing", UPDATE_CONFIG, body=b"# only a comment\n"),
        Ask("update text that is no properties", UPDATE_CONFIG, body=b"\x00\xff"),
        Ask("all offsets", 43),
        Ask("all delay offsets", 45),
        Ask("request modes", 402),
        Ask("replication", 907),
        Ask("a half message that is none", 323, {"topic": "T", "msgId": "7F00000100002A9F0000000000000000"}),
        Ask("a half message without an id", 323),
        Ask("a half message by no id", 323, {"msgId": "x"}),
    ],
)

READ_ONLY = Scenario(
    "read-only",
    "a broker that may not be written to",
    [
        create_topic("create"),
        create_topic("create an order topic", "O", order="true"),
        Ask("close it for writing", UPDATE_CONFIG, body=b"brokerPermission=4\n"),
        send("send"),
        send("send to an order topic", "O"),
        send("send to an unknown topic", "NEW"),
        Ask("send back", 36, {"group": "G", "offset": "0", "delayLevel": "1"}),
        Ask("close it for reading", UPDATE_CONFIG, body=b"brokerPermission=2\n"),
        Ask(
            "pull",
            11,
            {
                "consumerGroup": "G",
                "topic": "T",
                "queueId": "0",
                "queueOffset": "0",
                "maxMsgNums": "1",
                "sysFlag": "4",
                "commitOffset": "0",
                "suspendTimeoutMillis": "0",
                "subscription": "*",
                "subVersion": "0",
            },
        ),
        Ask("permission of a topic", 351, {"topic": "T"}),
    ],
)


def _assigned(step: str, **extra: Any) -> Ask:
    options = {name: extra.pop(name) for name in ("until_body",) if name in extra}
    body = {"topic": "T", "consumerGroup": "G", "clientId": "c1", "strategyName": "AVG", "messageModel": "CLUSTERING"}
    return Ask(step, 400, body=compact(body | extra), **options)


def _mode(step: str, topic: str, mode: str, share: int = 0) -> Ask:
    body = {"topic": topic, "consumerGroup": "G", "mode": mode, "popShareQueueNum": share}
    return Ask(step, 401, body=compact(body))


ASSIGNMENTS = Scenario(
    "assignments",
    "queues dealt out by the broker",
    [
        create_topic("create"),
        _assigned("assignment of nobody"),
        _assigned("assignment of nothing", topic="NONE"),
        Ask("assignment without a body", 400),
        Ask("modes at first", 402),
        heartbeat("first comes", "c1", consumers=[consumer("G", subscription("T"))], on="c1"),
        _assigned("all to the first", until_body=b'"queueId":3'),
        heartbeat("second comes", "c2", consumers=[consumer("G", subscription("T"))], on="c2"),
        _assigned("half to the first", until_body=b"queueId"),
        _assigned("half to the second", clientId="c2"),
        _assigned("by circle", strategyName="AVG_BY_CIRCLE"),
        _assigned("by an unknown strategy", strategyName="NONE"),
        _assigned("by no strategy", strategyName=""),
        _assigned("to a stranger", clientId="c9"),
        _assigned("broadcasting", messageModel="BROADCASTING"),
        _mode("set the mode", "T", "PULL"),
        _mode("set the mode of a retry topic", "%RETRY%G", "POP"),
        Ask("set without a body", 401),
        Ask("modes", 402),
    ],
)

UNKNOWN = Scenario(
    "unknown",
    "codes nobody knows, and headers that are barely headers",
    [
        *(
            Ask(f"code {code}", code)
            for code in (0, 1, 9, 13, 16, 19, 22, 27, 99, 100, 105, 106, 999, 30_000, 1_000_000)
        ),
        Ask("negative code", -1),
        Ask("unknown code, binary", 999, binary=True),
        Ask("unknown code, one way", 999, one_way=True),
        Ask("unknown code on the second port", 999, on="vip"),
        Ask("header with unknown members", 0, raw_header=_HEADER.replace('"flag"', '"future":[1],"flag"') % "43"),
        Ask(
            "header without fields", 28, raw_header='{"code":28,"flag":0,"language":"JAVA","opaque":OPAQUE,"version":0}'
        ),
        Ask("code as text", 0, raw_header=_HEADER % '"43"'),
        Ask("no code", 0, raw_header='{"flag":0,"language":"JAVA","opaque":OPAQUE,"version":513}'),
        Ask("unknown language", 0, raw_header=(_HEADER % "43").replace("JAVA", "KLINGON")),
        Ask("header that is no JSON", 0, raw_header="no json OPAQUE", on="bad"),
        Ask("still alive", 43),
    ],
)
