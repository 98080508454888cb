"""Rows to messages; what comes out is read by the codec that brokers use."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apogeemq.errors import MessageIllegal
from apogeemq.filter.tags import java_hash
from apogeemq.model.properties import decode_properties
from apogeemq.protocol.batch import decode_batch
from apogeemq.spark.sink import rows as module
from apogeemq.spark.sink.columns import SinkColumns
from apogeemq.spark.sink.ids import IdScope
from apogeemq.spark.sink.rows import EncodedRows, RowEncoder, chunks
from apogeemq.spark.sink.write_options import read_write_options

TEXTS = pa.map_(pa.string(), pa.string())
TYPES = {
    "body": pa.binary(),
    "topic": pa.string(),
    "keys": pa.list_(pa.string()),
    "tags": pa.string(),
    "properties": TEXTS,
    "sharding_key": pa.string(),
    "delay": pa.int32(),
    "deliver_at": pa.timestamp("us", "UTC"),
}


def encode(columns: dict[str, Any], slices: slice = slice(None), **options: str) -> EncodedRows:
    arrays = {
        name: values if isinstance(values, pa.Array) else pa.array(values, TYPES[name])
        for name, values in columns.items()
    }
    batch = pa.RecordBatch.from_pydict(arrays)
    first, end, _ = slices.indices(batch.num_rows)
    batch = batch.slice(first, end - first)
    read = read_write_options({"nameServer": "x:1", **({} if "topic" in columns else {"topic": "T"}), **options})
    ids = IdScope("q").of_keys([b"%d" % number for number in range(first, end)])
    return RowEncoder(SinkColumns(present=frozenset(columns)), read).encode(batch, ids)


def messages(encoded: EncodedRows) -> list[tuple[bytes, dict[str, str]]]:
    data = bytes(encoded.entries.buffers()[2])[encoded.places[0] : encoded.places[-1]]
    return [(body, decode_properties(properties.decode())) for _, body, properties in decode_batch(data)]


def test_bodies_of_texts_and_bytes() -> None:
    for kind, values in ((pa.binary(), [b"\x00\xff", b"x"]), (pa.string(), ["grün", "x"]), (pa.large_binary(), [b"y"])):
        found = messages(encode({"body": pa.array(values, kind)}))
        assert [body for body, _ in found] == [value.encode() if isinstance(value, str) else value for value in values]


def test_every_message_has_its_id_and_waits_for_the_store() -> None:
    ((_, properties),) = messages(encode({"body": [b"x"]}))
    expected = IdScope("q").of_keys([b"0"])[0].tobytes().hex().upper()
    assert properties == {"UNIQ_KEY": expected, "WAIT": "true"}


def test_all_that_a_message_can_have() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678_901, UTC)
    columns = {
        "body": [b"one", b"two", b"three"],
        "keys": [["a", "b"], None, []],
        "tags": ["paid", None, ""],
        "properties": [[("mine", "yes"), ("other", "no"), ("none", None)], None, []],
        "sharding_key": ["customer 7", None, ""],
        "delay": [3, None, 0],
        "deliver_at": [None, moment, None],
    }
    encoded = encode(columns)
    found = messages(encoded)
    own = [
        {name: value for name, value in properties.items() if name not in ("UNIQ_KEY", "WAIT")}
        for _, properties in found
    ]
    assert own == [
        {
            "mine": "yes",
            "other": "no",
            "TAGS": "paid",
            "KEYS": "a b",
            "__SHARDINGKEY": "customer 7",
            "DELAY": "3",
        },
        {"TIMER_DELIVER_MS": "1767323045678"},
        {},
    ]
    assert encoded.alone is not None
    assert encoded.alone.tolist() == [True, True, False]


def test_a_slice_of_a_batch_is_itself() -> None:
    columns = {
        "body": [b"%d" % number for number in range(10)],
        "keys": [[f"k{number}"] * (number % 3) for number in range(10)],
        "tags": [f"t{number}" if number % 2 else None for number in range(10)],
        "properties": [[(f"p{number}", "v")] * (number % 2) for number in range(10)],
        "sharding_key": [f"s{number}" for number in range(10)],
    }
    whole = encode(columns)
    part = encode(columns, slice(3, 7))
    assert messages(part) == messages(whole)[3:7]
    assert whole.key_hashes is not None and part.key_hashes is not None
    assert part.key_hashes.tolist() == whole.key_hashes.tolist()[3:7]


text = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02 "), min_size=1, max_size=20)


@given(
    st.lists(
        st.tuples(
            st.binary(min_size=1, max_size=30),
            st.none() | text,
            st.none() | st.lists(text, min_size=1, max_size=3),
            st.none() | st.dictionaries(text.map(lambda name: f"x{name}"), text, max_size=3),
        ),
        max_size=8,
    )
)
def test_whatever_goes_in_comes_out(
    rows: list[tuple[bytes, str | None, list[str] | None, dict[str, str] | None]],
) -> None:
    columns = {
        "body": [row[0] for row in rows],
        "tags": [row[1] for row in rows],
        "keys": [row[2] for row in rows],
        "properties": [None if row[3] is None else list(row[3].items()) for row in rows],
    }
    for (body, properties), row in zip(messages(encode(columns)), rows, strict=True):
        expected = {"TAGS": row[1], "KEYS": " ".join(row[2]) if row[2] else None, **(row[3] or {})}
        assert body == row[0]
        assert {name: properties.get(name) for name in expected} == expected


def test_keys_may_be_one_text() -> None:
    ((_, properties),) = messages(encode({"body": [b"x"], "keys": pa.array(["a b"])}))
    assert properties["KEYS"] == "a b"


def test_sharding_keys_are_hashed_as_the_client_does() -> None:
    encoded = encode({"body": [b"x"] * 4, "sharding_key": ["a", "b", None, "a"]})
    assert encoded.key_hashes is not None and encoded.has_key is not None
    assert encoded.has_key.tolist() == [True, True, False, True]
    assert encoded.key_hashes[[0, 1, 3]].tolist() == [java_hash("a"), java_hash("b"), java_hash("a")]
    assert encode({"body": [b"x"], "sharding_key": ["a"]}, orderByShardingKey="false").key_hashes is None


def test_topics_of_rows() -> None:
    encoded = encode({"body": [b"x"] * 3, "topic": ["T", "U", "T"]})
    assert encoded.topic_numbers is not None
    assert [encoded.topics[number] for number in encoded.topic_numbers] == ["T", "U", "T"]
    assert encode({"body": [b"x"]}).topics == ["T"]


def test_system_properties_may_be_left_out() -> None:
    columns = {"body": [b"x"], "properties": [[("UNIQ_KEY", "theirs"), ("mine", "yes"), ("TAGS", "old")]]}
    with pytest.raises(MessageIllegal, match="UNIQ_KEY is the system's own"):
        encode(columns)
    ((_, properties),) = messages(encode(columns, systemProperties="drop"))
    assert properties["mine"] == "yes"
    assert properties["UNIQ_KEY"] != "theirs"
    assert "TAGS" not in properties


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"body": [b"x", None, b""]}, r"2 rows have no body, or an empty one \(1 null\)"),
        ({"body": [b"x" * 1001]}, "has 1001 bytes, more than maxMessageBytes, 1000"),
        ({"body": [b"x"], "tags": ["a\x01b"]}, "column tags holds a character"),
        ({"body": [b"x"], "sharding_key": ["a\x02"]}, "column sharding_key holds a character"),
        ({"body": [b"x"], "keys": [["a", "b\x01"]]}, "column keys holds a character"),
        ({"body": [b"x"], "properties": [[("a", "b\x02")]]}, "a property holds a character"),
        ({"body": [b"x"], "properties": [[("", "b")]]}, "needs a name and a value"),
        ({"body": [b"x"], "properties": [[("a", "")]]}, "needs a name and a value"),
        ({"body": [b"x"], "properties": [[("a", "b" * 40_000)]]}, "take 40055 bytes, more than 32767"),
        ({"body": [b"x"], "delay": [-1]}, "delay -1"),
        ({"body": [b"x"], "delay": [1], "deliver_at": [datetime(2026, 1, 1, tzinfo=UTC)]}, "both delay and deliver_at"),
        ({"body": [b"x"], "deliver_at": [datetime(1960, 1, 1, tzinfo=UTC)]}, "deliver_at"),
        ({"body": [b"x"] * 2, "topic": ["T", None]}, "1 rows have no topic"),
        ({"body": [b"x"], "topic": ["no spaces"]}, "'no spaces'"),
    ],
)
def test_rows_that_cannot_be_messages(columns: dict[str, Any], words: str) -> None:
    with pytest.raises(MessageIllegal, match=words):
        encode(columns, maxMessageBytes="1000", batchBytes="1000")


def test_a_topic_that_is_not_among_those_there_may_be() -> None:
    with pytest.raises(MessageIllegal, match="'U': expected one of option topics, T"):
        encode({"body": [b"x"], "topic": ["U"]}, topics="T")


def test_large_batches_are_encoded_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CHUNK_BYTES", 100)
    batch = pa.RecordBatch.from_pydict({"body": [b"x" * size for size in (10, 30, 200, 1, 1, 1)]})
    parts = list(chunks(batch))
    assert len(parts) > 2
    assert pa.Table.from_batches(parts).to_pylist() == batch.to_pylist()
    assert list(chunks(batch.slice(0, 0))) == []
