"""Schemas that a pipeline file holds or names."""

from __future__ import annotations

import pytest

from tests.shop_messages import AVRO_ORDER, descriptor_set
from tests.unit.spark.pipeline.text.pipeline_texts import SINK, parse, problems, with_part

DECODE = with_part('[sources.a.decode]\nmalformed = "keep"\nformat = "{}"\n{}\n' + SINK)


@pytest.mark.parametrize(
    ("form", "keys", "line", "key", "sentence"),
    [
        ("json", "", "8", "", "a schema is missing: schema with DDL, or schema_file with the name of a file of it"),
        ("json", 'schema_file = "s.ddl"', "11", ".schema_file", "cannot read s.ddl: No such file or directory"),
        ("json", 'schema_file = "bad.json"', "11", ".schema_file", "expected Spark's JSON of a struct: {"),
        ("json", 'schema_file = ""', "8", "", "a schema is missing: schema with DDL, or schema_file with the name of"),
        ("json", 'schema = " "', "8", "", "a schema is missing: schema with DDL, or schema_file with the name of"),
        ("avro", 'schema = ""', "8", "", "a schema is missing: schema with Avro's JSON, or schema_file with"),
        (
            "protobuf",
            'message = "shop.Order"\nschema_file = ""',
            "8",
            "",
            "a schema is missing: schema_file with the name of a descriptor set",
        ),
        ("json", 'schema_file = "wrong.json"', "11", ".schema_file", "'strin' is not a type in Spark's JSON (the"),
        ("json", "schema = 3", "11", ".schema", "expected DDL such as 'id STRING, price DOUBLE', or a table of"),
        ("json", 'schema = "a INT"\nmessage = "x"', "12", ".message", "is for protobuf alone"),
        ("avro", 'schema = "{"', "11", ".schema", "not JSON: Expecting property name"),
        ("avro", 'schema = \'{"type": "recrd"}\'', "11", ".schema", "{'type': 'recrd'} is not a type of Avro"),
        (
            "avro",
            f"schema = '{AVRO_ORDER}'\noptions = {{ a = 1 }}",
            "12",
            ".options",
            "go to Spark's function for JSON",
        ),
        ("protobuf", 'schema_file = "good.desc"', "8", "", "message is missing: the full name of the message"),
        (
            "protobuf",
            'schema_file = "bad.json"\nmessage = "a.Order"',
            "11",
            ".schema_file",
            "not a whole descriptor set",
        ),
        ("protobuf", 'schema_file = "good.desc"\nmessage = "Oder"', "11", ".schema_file", "there is no message Oder"),
    ],
)
def test_schemas_that_cannot_be_read(form: str, keys: str, line: str, key: str, sentence: str) -> None:
    wrong = b'{"type": "struct", "fields": [{"name": "a", "type": "strin"}]}'
    files = {"bad.json": b'{"type": "array"}', "wrong.json": wrong, "good.desc": descriptor_set()}
    (problem,) = problems(DECODE.format(form, keys), files)
    assert problem.replace("unreadable schema: ", "").startswith(f"{line}: sources.a.decode{key}: {sentence}")


def test_texts_may_begin_with_a_mark_of_their_encoding() -> None:
    files = {"s.ddl": b"\xef\xbb\xbfa INT", "q.sql": b"\xef\xbb\xbfFROM a"}
    spec = parse(DECODE.format("json", 'schema_file = "s.ddl"') + '[steps.p]\nsql_file = "q.sql"\n', files)
    decode = spec.sources["a"].decode
    assert decode is not None and (decode.schema, spec.steps["p"].sql) == ("a INT", "FROM a")


def test_schemas_from_files() -> None:
    files = {"s.ddl": b"a INT\n", "s.avsc": AVRO_ORDER.encode(), "s.desc": descriptor_set()}
    decode = parse(DECODE.format("json", 'schema_file = "s.ddl"'), files).sources["a"].decode
    assert decode is not None and decode.schema == "a INT"
    decode = parse(DECODE.format("json", 'schema = {"a`b" = "INT"}'), files).sources["a"].decode
    assert decode is not None and decode.schema == "`a``b` INT"
    decode = parse(DECODE.format("avro", 'schema_file = "s.avsc"\nskip_bytes = 5'), files).sources["a"].decode
    assert decode is not None and decode.skip_bytes == 5
    decode = (
        parse(DECODE.format("protobuf", 'schema_file = "s.desc"\nmessage = "shop.Order"'), files).sources["a"].decode
    )
    assert decode is not None and decode.schema == "/folder/s.desc"
