"""JSON bodies on a real Spark: a row for each that is one object of its schema, and nothing lost of the others."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from apogeemq.spark.pipeline.decoding import MALFORMED, decoded
from apogeemq.spark.pipeline.spec import BodyFormat, Decode

SCHEMA = "a INT, s STRING, o STRUCT<x: INT>, l ARRAY<INT>"
GOOD: dict[bytes, dict[str, Any]] = {
    b'{"a":1}': {"a": 1},
    b' \t\r\n{ "a" : 1 } \r\n\t': {"a": 1},
    b"{}": {},
    b'{"a":null,"other":[{}]}': {},
    b'{"o":{"x":1},"l":[1,2]}': {"o": {"x": 1}, "l": [1, 2]},
    '{"s":"é😀}],{[\\"}"}'.encode(): {"s": 'é😀}],{["}'},
    b'{"s":{"x": 1}}': {"s": '{"x":1}'},
    b'{"s":true}': {"s": "true"},
    b'{"a":1,"a":2}': {"a": 2},
    b'{"__whole":{"a":1}, "__corrupt":"x"}': {},
}
MALFORMED_BODIES = [
    *(b"", b" ", b"null", b"1", b'"x"', b"[]", b'[{"a":1}]', b'{"a":1', b'{"a":"x"}', b'{"l":[1,"x"]}'),
    *(b'{"o":{"x":"q"}}', b'{"s":"\xff"}', b'{"a":1}{"a":2}', b'{"a":1}\n{"a":2}', b'{"a":3} trailing', b'{"a":1}{'),
    *(b'{"a":1},{"a":2}', b'{"a":1},', b',{"a":1}', b'{"a":1}]', b'{"a":1}}', b'{"a":1}] more', b'{"a":1}} more'),
    *(b'{"a":1}],[1', b'{"a":1}],[1]', b'{"a":1},"__whole":{"a":2}', b'{"a":1},"x":[1]', b'{"a":1},"x":1}', b"]["),
    *(b'{"a":1}}],[{{"a":1}', b'{"a":1}\x00', b'{"a":1}//c', b'{"a":1}\xc2\xa0', b'\xef\xbb\xbf{"a":1}', b'1,{"a":1}'),
]


def decode_all(spark: SparkSession, bodies: list[bytes], decode: Decode) -> dict[bytes, dict[str, Any] | None]:
    """By body the fields that are there; None for one that is malformed."""
    frame = spark.createDataFrame([(body,) for body in bodies], "body BINARY").coalesce(1)
    rows = decoded(frame, decode).collect()
    assert all(row[MALFORMED] == (row.value is None) for row in rows) and len(rows) == len(bodies)
    return {
        bytes(row.body): row.value
        and {key: value for key, value in row.value.asDict(recursive=True).items() if value is not None}
        for row in rows
    }


def test_a_body_is_one_object_and_nothing_else(spark: SparkSession) -> None:
    found = decode_all(spark, [*GOOD, *MALFORMED_BODIES], Decode(format=BodyFormat.JSON, schema=SCHEMA))
    assert {body: found[body] for body in GOOD} == GOOD
    assert [body for body in MALFORMED_BODIES if found[body] is not None] == []


def test_options_hold_for_all_of_a_body(spark: SparkSession) -> None:
    decode = Decode(format=BodyFormat.JSON, schema=SCHEMA, skip_bytes=2, options={"allowComments": "true"})
    good = [b'..{"a":1}//c', b'../*[*/{"a":1}/*}*/']
    bad = [b'..{"a":1}//c\n{"a":2}', b'..{"a":1}/*', b'..{"a":1}]//', b'..{"a":1}}//', b"."]
    found = decode_all(spark, [*good, *bad], decode)
    assert found == {**{body: {"a": 1} for body in good}, **dict.fromkeys(bad)}
