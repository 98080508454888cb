"""The forms a registration may have, and those that are refused."""

from __future__ import annotations

from tests.golden.scenarios.build import (
    ALL_TOPICS,
    CLUSTER_INFO,
    HEARTBEAT,
    QUERY_DATA_VERSION,
    REGISTER,
    UNREGISTER,
    broker_fields,
    compact,
    data_version,
    identity,
    register,
    register_body,
    register_body_4,
    register_body_compressed,
    route,
    route_old,
    table,
    topic,
    without,
)
from tests.golden.steps import JAVA_4_9_7, V4, Ask, Scenario

A = broker_fields()
TWO = table("T1", topic("T2", read=8, write=2, perm=7))
LINES_5 = ["T1 4 4 6 SINGLE_TAG {}", 'T2 8 2 7 MULTI_TAG {"+message.type":"NORMAL"}']
LINES_4 = ["T1 4 4 6 SINGLE_TAG", "T2 8 2 7 SINGLE_TAG"]


def _other(name: str, port: int, **extra: str) -> dict[str, str]:
    return broker_fields(name, port=port) | extra


def _old(name: str, port: int, **extra: str) -> dict[str, str]:
    """A broker from before acting masters."""
    return without(_other(name, port, **extra), "enableActingMaster")


REFUSED = Scenario(
    "refused",
    "registrations with something wrong, what passes all the same, and that the refused leave nothing behind",
    [
        register("no topics", _other("broker-e", 10951), register_body({})),
        Ask("wrong crc", REGISTER, A | {"bodyCrc32": "12345"}, register_body(TWO)),
        Ask("negative crc", REGISTER, A | {"bodyCrc32": "-5"}, register_body(TWO)),
        Ask("crc that is no number", REGISTER, _other("broker-c", 10901) | {"bodyCrc32": "x"}, register_body(TWO)),
        Ask("no crc", REGISTER, without(_other("broker-n", 10961), "bodyCrc32"), register_body(TWO)),
        register("body that is not JSON", A, b"no json"),
        register("body cut short", A, register_body(TWO)[:100]),
        register("body that is an array", A, b"[]"),
        register("body that is null", A, b"null"),
        register("body that is an empty object", _other("broker-o", 10971), b"{}"),
        register(
            "body without version",
            _other("broker-v", 10941),
            register_body(TWO).replace(b'"dataVersion"', b'"noVersion"', 1),
        ),
        register("zlib cut short", A | {"compressed": "true"}, register_body_compressed(LINES_5, mappings=[])[:20]),
        register("flag without zlib", A | {"compressed": "true"}, register_body(TWO)),
        register(
            "compressed topic that does not parse",
            A | {"compressed": "true"},
            register_body_compressed(["T1", LINES_5[1]], mappings=[]),
        ),
        Ask("no body", REGISTER, _other("broker-b", 10921)),
        Ask("no id", REGISTER, without(A, "brokerId"), register_body(TWO)),
        Ask("id that is no number", REGISTER, A | {"brokerId": "x"}, register_body(TWO)),
        Ask("no fields", REGISTER, {}, register_body(TWO)),
        register("no ha address", without(_other("broker-h", 10991), "haServerAddr"), register_body(TWO)),
        Ask("data version with a bad body", QUERY_DATA_VERSION, identity(A), b"no json"),
        Ask("data version without names", QUERY_DATA_VERSION, {}, compact(data_version())),
        Ask("heartbeat without names", HEARTBEAT, silent=(V4,)),
        Ask("cluster info", CLUSTER_INFO),
        Ask("all topics", ALL_TOPICS),
        route("route", "T2"),
    ],
)

HALF_TAKEN = Scenario(
    "half-taken",
    "what Apache takes half, or refuses for a fault of its own",
    [
        register("first registration with one topic", A, register_body(table("T1"))),
        Ask("cluster info after one topic", CLUSTER_INFO),
        register(
            "topics that are null",
            _other("broker-p", 10981),
            register_body(TWO).replace(b'"topicConfigTable":{', b'"topicConfigTable":null,"x":{'),
        ),
        Ask("cluster info after null topics", CLUSTER_INFO),
        register(
            "topic without its name",
            _other("broker-t", 10931),
            register_body({"T1": without(topic("T1"), "topicName"), "T2": topic("T2")}),
        ),
        register("zlib without the flag", A, register_body_compressed(LINES_5, mappings=[])),
        Ask("no name", REGISTER, without(A, "brokerName"), register_body(TWO)),
        Ask("no address", REGISTER, without(A, "brokerAddr"), register_body(TWO)),
        Ask("no cluster", REGISTER, without(A, "clusterName"), register_body(TWO)),
        Ask("unregister without names", UNREGISTER),
    ],
)

FORMATS = Scenario(
    "formats",
    "the same two topics in every form a registration has had, from 3.0 to 5.5",
    [
        register("plain, 5.5.0", _other("b-plain", 10101), register_body(TWO)),
        register("plain, 4.9.7", _old("b-plain-4", 10201), register_body_4(TWO), version=JAVA_4_9_7),
        register("plain, 3.0.11", without(_old("b-plain-3", 10301), "bodyCrc32"), register_body_4(TWO), version=37),
        register(
            "topic table alone, before 3.0.11",
            without(_old("b-old", 10401), "bodyCrc32"),
            compact({"dataVersion": {"counter": 1, "timestamp": 1}, "topicConfigTable": TWO}),
            version=36,
        ),
        Ask("nothing, before 3.0.11", REGISTER, without(_old("b-older", 10411), "bodyCrc32"), version=0),
        register(
            "compressed, 5.5.0",
            _other("b-zlib", 10501, compressed="true"),
            register_body_compressed(LINES_5, mappings=[]),
        ),
        register(
            "compressed, 4.9.7",
            _old("b-zlib-4", 10601, compressed="true"),
            register_body_compressed(LINES_4),
            version=JAVA_4_9_7,
        ),
        register(
            "compressed, 5.5.0 without attributes",
            _other("b-zlib-5", 10701, compressed="true"),
            register_body_compressed(LINES_4, mappings=[]),
        ),
        register(
            "spaces in the JSON",
            _other("b-space", 10801),
            register_body(TWO).replace(b":", b" : ").replace(b",", b" , "),
        ),
        register("numbers as text", _other("b-text", 10901), register_body(TWO).replace(b'"perm":6', b'"perm":"6"')),
        register("binary codec", _other("b-binary", 10111), register_body(TWO), binary=True),
        route("route", "T1"),
        route_old("route, old client", "T2"),
        Ask("cluster info", CLUSTER_INFO),
        Ask(
            "data version of the old one",
            QUERY_DATA_VERSION,
            identity(_old("b-old", 10401)),
            compact({"counter": 1, "timestamp": 1}),
        ),
        Ask(
            "data version of the compressed one",
            QUERY_DATA_VERSION,
            identity(_other("b-zlib", 10501)),
            compact(data_version()),
        ),
    ],
)
