"""DDL schemas, checked without Spark."""

from __future__ import annotations

import pytest

from apogeemq.spark.pipeline.text.ddl import SchemaUnreadable, checked_ddl


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a STRING", ["a"]),
        ("a: string, `b c` DECIMAL(10, 2) NOT NULL COMMENT 'x, y', c ARRAY<INT>", ["a", "b c", "c"]),
        ("m MAP<STRING, ARRAY<STRUCT<x: INT, y TIMESTAMP_NTZ>>>, s struct<>", ["m", "s"]),
        ("i INTERVAL DAY TO SECOND, v VARCHAR(20), größe double", ["i", "v", "größe"]),
        ("_x bigint,", ["_x"]),
        ("a STRING COLLATE UTF8_LCASE NOT NULL, b ARRAY<STRING COLLATE system.builtin.UNICODE>", ["a", "b"]),
        ("m MAP<STRING COLLATE UNICODE_CI, STRUCT<x: STRING COLLATE UTF8_LCASE COMMENT 'c', y INT>>", ["m"]),
    ],
)
def test_good(text: str, names: list[str]) -> None:
    assert checked_ddl(text) == names


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "the schema has no columns"),
        ("a", "the schema ends where the type of a was expected"),
        ("a STRNG", "'strng' is not a type of Spark (the type of a); did you mean string?"),
        ("a INT b INT", "a comma was expected after column a, not 'b'"),
        ("a INT, A STRING", "the column A is there twice"),
        ("a ARRAY<INT", "'>' was expected in array, not 'the end'"),
        ("a MAP<INT>", "',' was expected in map, not '>'"),
        ("a DECIMAL(10", "')' was expected in decimal, not 'the end'"),
        ("(a INT)", "a column's name was expected where '(' stands"),
        ("a " + "ARRAY<" * 60 + "INT" + ">" * 60, "types are nested more than 50 deep"),
    ],
)
def test_bad(text: str, sentence: str) -> None:
    with pytest.raises(SchemaUnreadable) as raised:
        checked_ddl(text)
    assert str(raised.value) == sentence
