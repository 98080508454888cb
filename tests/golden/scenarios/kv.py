"""The key-value table."""

from __future__ import annotations

from typing import Any

from tests.golden.scenarios.build import DELETE_KV, GET_KV, KV_LIST, PUT_KV
from tests.golden.steps import GO_CLIENT, V4, Ask, Scenario

ODD_TEXT = "grün/<b>\"q\"'s'\\ \u2028\u0001\u007f 日本 \U0001f680 &=+;"


def _put(step: str, namespace: str, key: str, value: str, **options: Any) -> Ask:
    return Ask(step, PUT_KV, {"namespace": namespace, "key": key, "value": value}, **options)


def _get(step: str, namespace: str, key: str, **options: Any) -> Ask:
    return Ask(step, GET_KV, {"namespace": namespace, "key": key}, **options)


def _delete(step: str, namespace: str, key: str) -> Ask:
    return Ask(step, DELETE_KV, {"namespace": namespace, "key": key})


def _list(step: str, namespace: str) -> Ask:
    return Ask(step, KV_LIST, {"namespace": namespace})


KV = Scenario(
    "kv",
    "put, get, list and delete, with keys that are not there and text that needs escapes",
    [
        _get("get from a namespace never used", "ns", "k"),
        _list("list a namespace never used", "ns"),
        _delete("delete from a namespace never used", "ns", "k"),
        _put("put", "ns", "k", "v1"),
        _get("get", "ns", "k"),
        _put("put over", "ns", "k", "v2"),
        _get("get what was put over", "ns", "k"),
        _get("get an absent key", "ns", "other"),
        _list("list one", "ns"),
        _put("put a second", "ns", "k2", ""),
        _get("get an empty value", "ns", "k2"),
        _list("list two", "ns"),
        _put("put odd text", "odd", "schlüssel/\"'", ODD_TEXT),
        _get("get odd text", "odd", "schlüssel/\"'"),
        _list("list odd text", "odd"),
        _get("get an absent key with odd text", ODD_TEXT, ODD_TEXT),
        _list("list an absent namespace with odd text", ODD_TEXT),
        _put("put one-way", "ns", "k3", "v3", one_way=True),
        Ask("get what came one-way", GET_KV, {"namespace": "ns", "key": "k3"}, until_code=0),
        _delete("delete", "ns", "k"),
        _get("get what was deleted", "ns", "k"),
        _delete("delete it again", "ns", "k"),
        _delete("delete the second", "ns", "k2"),
        _delete("delete the third", "ns", "k3"),
        _list("list an emptied namespace", "ns"),
        Ask("get as an old client", GET_KV, {"namespace": "odd", "key": "schlüssel/\"'"}, version=GO_CLIENT),
        _get("get in the binary codec", "odd", "schlüssel/\"'", binary=True),
        _get("get an absent key in the binary codec", "odd", "none", binary=True),
        Ask("put without a key", PUT_KV, {"namespace": "ns", "value": "v"}),
        Ask("put without a namespace", PUT_KV, {"key": "k", "value": "v"}),
        Ask("put without a value", PUT_KV, {"namespace": "ns", "key": "valueless"}),
        _get("get what has no value", "ns", "valueless"),
        Ask("get without a key", GET_KV, {"namespace": "ns"}),
        Ask("get without a namespace", GET_KV, {"key": "k"}),
        Ask("delete without a key", DELETE_KV, {"namespace": "ns"}),
        Ask("list without a namespace", KV_LIST),
    ],
)

ODDITIES = Scenario(
    "oddities",
    "unknown codes, strange headers, odd versions: what is refused, and how",
    [
        Ask("unknown code", 99_999, silent=(V4,)),
        Ask("unknown code, binary codec", 29_999, binary=True, silent=(V4,)),
        Ask("a broker's code", 10, {"topic": "T"}, silent=(V4,)),
        Ask("code 0", 0, silent=(V4,)),
        Ask("negative code", -1, silent=(V4,)),
        Ask("a controller's code", 1001, silent=(V4,)),
        Ask("unknown code, one-way", 99_999, one_way=True),
        Ask(
            "fields that are not strings",
            GET_KV,
            raw_header='{"code":101,"extFields":{"namespace":1,"key":true},"flag":0,"language":"JAVA","opaque":OPAQUE,"version":513}',
        ),
        Ask(
            "fields that are null",
            KV_LIST,
            raw_header='{"code":219,"extFields":null,"flag":0,"language":"JAVA","opaque":OPAQUE,"version":513}',
        ),
        Ask(
            "a null field",
            KV_LIST,
            raw_header='{"code":219,"extFields":{"namespace":null},"flag":0,"language":"JAVA","opaque":OPAQUE,"version":513}',
        ),
        Ask("only code and opaque", 206, raw_header='{"code":206,"opaque":OPAQUE}'),
        Ask("unknown keys", 206, raw_header='{"code":206,"opaque":OPAQUE,"more":{"a":[1]},"version":513}'),
        Ask("whitespace", 206, raw_header=' { "code" : 206 , "opaque" : OPAQUE , "version" : 513 } '),
        Ask("unknown language", 206, raw_header='{"code":206,"language":"COBOL","opaque":OPAQUE,"version":513}'),
        Ask("language as a number", 206, raw_header='{"code":206,"language":3,"opaque":OPAQUE,"version":513}'),
        Ask("code as text", 206, raw_header='{"code":"206","opaque":OPAQUE,"version":513}'),
        Ask("version from the future", 206, version=30_000),
        Ask("version of long ago", 206, version=0),
        Ask("a body that is not wanted", 206, body=b"\x00\xff"),
    ],
)
