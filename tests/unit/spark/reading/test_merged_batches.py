"""Records that unpack to much: batches of a limited size, and nothing lost between them."""

from __future__ import annotations

import pytest

from apogeemq.model.flags import COMPRESSED
from apogeemq.protocol.batch import encode_batch
from apogeemq.protocol.compression import FLAGS, compress, decompress
from apogeemq.spark.reading import merged_batches, record_batches, single_rows
from apogeemq.spark.reading.record_batches import FEW_RECORDS, Pulled, decode
from apogeemq.spark.source.ranges import OffsetRange
from apogeemq.spark.source.schema import arrow_schema, spark_schema
from tests.unit.spark.reading.stored import BATCH, Stored, rows_in, rows_of, span, stored_from

WITH_ALL_PROPERTIES = arrow_schema(spark_schema(), all_properties=True)
SCHEMA = arrow_schema(spark_schema())
PLENTY = 3 * FEW_RECORDS


def one_pull(*messages: Stored) -> Pulled:
    return Pulled(span(0, len(messages)), [stored_from(0, messages)])


@pytest.fixture(params=["few", "many"])
def small_batches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two rows that are read one by one: those that are compressed, or all."""
    monkeypatch.setattr(merged_batches, "BYTES", 20_000)
    monkeypatch.setattr(record_batches, "FEW_RECORDS", 1_000_000 if request.param == "few" else 0)


def packed_body(number: int) -> Stored:
    return Stored(compress(b"%d" % number * 10_000, "zstd"), system_flag=COMPRESSED | FLAGS["zstd"])


def mixed(count: int) -> Pulled:
    """Every third is compressed."""
    return one_pull(
        *[packed_body(number % 10) if number % 3 == 1 else Stored(b"%d" % number) for number in range(count)]
    )


@pytest.mark.usefixtures("small_batches")
def test_what_unpacks_to_much_comes_in_several_batches_and_in_order() -> None:
    missing: list[OffsetRange] = []
    batches = list(decode([mixed(20)], WITH_ALL_PROPERTIES, tell_missing=missing.append))
    assert [row for batch in batches for row in rows_in(batch)] == rows_of(span(0, 20), b"".join(mixed(20).answers))
    bodies = [batch.column("body").to_pylist() for batch in batches]
    assert max(sum(len(body) > 9999 for body in of_batch) for of_batch in bodies) == 2
    assert missing == []


@pytest.mark.usefixtures("small_batches")
def test_bodies_are_unpacked_when_their_batch_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked: list[bytes] = []

    def noted(body: bytes, system_flag: int) -> bytes:
        unpacked.append(body)
        return decompress(body, system_flag)

    monkeypatch.setattr(single_rows, "decompress", noted)
    batches = decode([one_pull(*map(packed_body, range(9)))], SCHEMA)
    assert next(batches).num_rows == len(unpacked) == 2
    assert sum(batch.num_rows for batch in batches) == 7


@pytest.mark.usefixtures("small_batches")
def test_several_batches_have_the_tags_and_tell_what_is_missing() -> None:
    tagged = [
        packed_body(number)._replace(properties=b"TAGS\x01%s\x02" % (b"a" if number % 2 else b"b"))
        for number in range(9)
    ]
    pull = one_pull(*tagged[:4], Stored(properties=b"TAGS\x01a\x02"), *tagged[4:])._replace(span=span(0, 12))
    missing: list[OffsetRange] = []
    batches = list(decode([pull], SCHEMA, frozenset("a"), tell_missing=missing.append))
    assert [offset for batch in batches for offset in batch.column("queue_offset").to_pylist()] == [1, 3, 4, 6, 8]
    assert missing == [span(10, 12)]


@pytest.mark.usefixtures("small_batches")
def test_messages_of_one_record_in_several_batches() -> None:
    inner = [(0, b"%d" % number * 9000, b"") for number in range(5)]
    pull = Pulled(span(0, 7), [Stored().at(0) + Stored(encode_batch(inner), system_flag=BATCH).at(1) + Stored().at(6)])
    batches = list(decode([pull], WITH_ALL_PROPERTIES))
    assert len(batches) > 2
    assert [row for batch in batches for row in rows_in(batch)] == rows_of(pull.span, b"".join(pull.answers))


def test_usual_rows_are_one_batch() -> None:
    (batch,) = decode([one_pull(*[Stored()] * PLENTY)], SCHEMA)
    assert batch.num_rows == PLENTY
