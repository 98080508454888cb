"""Pulled bytes to Arrow batches: the same as reading record by record, for any records."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from apogeemq.errors import ProtocolError
from apogeemq.model.flags import BORN_HOST_IPV6, COMPRESSED, COMPRESSION_ZSTD, STORE_HOST_IPV6
from apogeemq.model.properties import encode_properties
from apogeemq.protocol.batch import encode_batch
from apogeemq.protocol.compression import FLAGS, compress
from apogeemq.protocol.record import MAGIC_V1
from apogeemq.spark.reading import property_table, record_batches, record_heads
from apogeemq.spark.reading.record_batches import FEW_RECORDS, Pulled, decode
from apogeemq.spark.source.columns import ALL_COLUMNS
from apogeemq.spark.source.ranges import OffsetRange
from apogeemq.spark.source.schema import arrow_schema, spark_schema
from tests.unit.spark.reading.stored import BATCH, Stored, rows_in, rows_of, span, stored_from

SCHEMA = arrow_schema(spark_schema())
WITH_ALL_PROPERTIES = arrow_schema(spark_schema(), all_properties=True)
PLENTY = 3 * FEW_RECORDS


@pytest.fixture(params=["few", "many"])
def any_number(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records are read one by one, or all at once."""
    monkeypatch.setattr(record_batches, "FEW_RECORDS", 1_000_000 if request.param == "few" else 0)


@pytest.fixture
def all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_batches, "FEW_RECORDS", 0)


def one_batch(pulls: Sequence[Pulled], schema: Any, tags: frozenset[str] | None = None, **more: Any) -> Any:
    return pa.concat_batches(list(decode(pulls, schema, tags, **more)))


def missing_of(*pulls: Pulled) -> list[OffsetRange]:
    missing: list[OffsetRange] = []
    one_batch(pulls, SCHEMA, tell_missing=missing.append)
    return missing


def decoded(*pulls: Pulled, **more: Any) -> list[dict[str, Any]]:
    """With all properties. Without being told to, those are left out that say nothing new, and nothing else."""
    batch = one_batch(pulls, WITH_ALL_PROPERTIES, **more)
    assert batch.schema.equals(SCHEMA)
    rows = rows_in(batch)
    assert rows_in(one_batch(pulls, SCHEMA, **more)) == [
        {**row, "properties": new_in(row["properties"])} for row in rows
    ]
    return rows


def new_in(properties: dict[str, str]) -> dict[str, str]:
    of_columns = {name: properties.get(name) for name in ("UNIQ_KEY", "KEYS", "TAGS")}
    return dict(properties.items() - {**of_columns, "WAIT": "true"}.items())


def one_pull(*messages: Stored, first: int = 0) -> Pulled:
    return Pulled(span(first, first + len(messages)), [stored_from(first, messages)])


def expected(*pulls: Pulled) -> list[dict[str, Any]]:
    return [row for pull in pulls for row in rows_of(pull.span, b"".join(pull.answers))]


# -- any records ---------------------------------------------------------------------------------------------

words = some.text(some.characters(codec="utf-8", exclude_characters="\x01\x02"), max_size=6)
pairs = some.dictionaries(some.sampled_from(("KEYS", "TAGS", "UNIQ_KEY", "WAIT", "é")) | words, words, max_size=5)
usual_properties = pairs.map(lambda found: encode_properties(found).encode())
# Twice the same names, a separator too few or too many, something between that is no text.
odd_properties = some.lists(
    some.sampled_from((b"TAGS\x01a\x02", b"KEYS\x01 k  j \x02", b"\x01", b"\x02", b"x", b"\x00", b"\xff", b"UNIQ_KEY"))
    | usual_properties,
    max_size=6,
).map(b"".join)
times = some.integers(0, 2**41) | some.integers(-(2**63), 2**63 - 1)
messages = some.builds(
    Stored,
    body=some.binary(max_size=30),
    properties=usual_properties | odd_properties,
    topic=some.sampled_from((b"T", b"%RETRY%" + b"g" * 150, b"")),
    system_flag=some.sampled_from((0, 0, 8, BORN_HOST_IPV6, STORE_HOST_IPV6, COMPRESSED, BATCH, 2**30)),
    born_time=times,
    store_time=times,
    reconsume_times=some.integers(-(2**31), 2**31 - 1),
    physical_offset=some.integers(0, 2**63 - 1),
)
packed = some.tuples(some.binary(max_size=50), some.sampled_from(sorted(FLAGS))).map(
    lambda found: Stored(body=compress(*found), system_flag=COMPRESSED | FLAGS[found[1]])
)
batches = some.lists(some.tuples(some.integers(0, 9), some.binary(max_size=9), usual_properties), max_size=3).map(
    lambda inner: Stored(body=encode_batch(inner), system_flag=BATCH)
)


@given(some.lists(messages | packed | batches, max_size=12), some.integers(0, 5), some.integers(0, 15))
@settings(max_examples=200)
def test_all_at_once_is_as_one_by_one(stored: list[Stored], start: int, end: int) -> None:
    data = stored_from(0, stored)
    pulls = (Pulled(span(start, end), [data]), Pulled(span(0, 7, 4, "U", "broker-b"), [data, data]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_batches, "FEW_RECORDS", 0)
        assert decoded(*pulls) == expected(*pulls)
        patch.setattr(record_batches, "FEW_RECORDS", 1_000_000)
        assert decoded(*pulls) == expected(*pulls)


known_names = some.sampled_from(("KEYS", "TAGS", "UNIQ_KEY", "WAIT", "a", "b", "é"))
names_alike = some.lists(known_names, min_size=1, max_size=5)
values = some.lists(words | some.just("true"), min_size=5, max_size=5)


@given(names_alike, some.lists(values, min_size=1, max_size=8), some.data())
def test_records_with_the_same_names(names: list[str], values: list[list[str]], data: some.DataObject) -> None:
    odd_one = data.draw(some.none() | some.tuples(some.integers(0, 7), some.sampled_from("ac")))
    stored = []
    for number, texts in enumerate(values):
        own = [odd_one[1] if odd_one and odd_one[0] == number and name == "a" else name for name in names]
        entries = "".join(f"{name}\x01{text}\x02" for name, text in zip(own, texts, strict=False))
        stored.append(Stored(properties=entries.encode()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_batches, "FEW_RECORDS", 0)
        assert decoded(one_pull(*stored)) == expected(one_pull(*stored))


@given(some.lists(messages | packed | batches, max_size=12))
def test_what_was_lent_is_not_kept(stored: list[Stored]) -> None:
    data = bytearray(stored_from(0, stored))
    pull = Pulled(span(0, 99), [memoryview(data)])
    for few in (0, 1_000_000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(record_batches, "FEW_RECORDS", few)
            wanted = expected(pull)
            batch = one_batch([pull], WITH_ALL_PROPERTIES)
            kept, data[:] = bytes(data), bytes(len(data))
            assert rows_in(batch) == wanted
            data[:] = kept


@given(names_alike, some.lists(some.integers(0, 4), min_size=5, max_size=5), some.integers(2, 6), some.data())
def test_records_that_differ_in_values_of_equal_length(
    names: list[str], lengths: list[int], count: int, data: some.DataObject
) -> None:
    texts = [some.text("rue", min_size=length, max_size=length) | some.just("true"[:length]) for length in lengths]
    entries = [
        "".join(f"{name}\x01{data.draw(text)}\x02" for name, text in zip(names, texts, strict=False)).encode()
        for _ in range(count)
    ]
    spoilt = data.draw(some.none() | some.tuples(some.integers(0, count - 1), some.integers(0, 99)))
    if spoilt is not None and (victim := bytearray(entries[spoilt[0]])):
        victim[spoilt[1] % len(victim)] = data.draw(some.sampled_from(b"\x00\x01\x02x\xff"))
        entries[spoilt[0]] = bytes(victim)
    stored = [Stored(properties=one) for one in entries]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_batches, "FEW_RECORDS", 0)
        patch.setattr(property_table, "_ROWS_AT_ONCE", data.draw(some.sampled_from((2, 3, 32))))
        assert decoded(one_pull(*stored)) == expected(one_pull(*stored))


@pytest.mark.usefixtures("all_at_once")
def test_records_of_one_layout_are_not_searched_for_separators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(property_table, "_separators", None)
    entries = [
        b"KEYS\x01k%03d\x02WAIT\x01true\x02own\x01%03d\x02other\x01x\x02" % (number, number) for number in range(9)
    ]
    stored = [Stored(b"%d" % number, properties=one) for number, one in enumerate(entries)]
    rows = decoded(one_pull(*stored))
    assert rows == expected(one_pull(*stored))
    assert rows[7]["properties"] == {"KEYS": "k007", "WAIT": "true", "own": "007", "other": "x"}


@given(
    some.lists(some.binary(max_size=200) | some.sampled_from([MAGIC_V1.to_bytes(4), Stored().at(7)]), max_size=40),
    some.integers(1, 700),
    some.none() | some.tuples(some.integers(0, 2**16), some.integers(0, 255)),
)
@settings(max_examples=300)
def test_much_data_is_gone_through_side_by_side(
    bodies: list[bytes], stride: int, spoilt: tuple[int, int] | None
) -> None:
    """Some bodies look like records, or like their beginning."""
    data = bytearray(stored_from(0, list(map(Stored, bodies))))
    if spoilt is not None and data:
        data[spoilt[0] % len(data)] = spoilt[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_heads, "_MUCH_DATA", 4)
        patch.setattr(record_heads, "_STRIDE", stride)
        assert found_by(record_heads.record_positions, data) == found_by(one_by_one, data)


def found_by(find: Callable[[bytes], record_heads.Positions], data: bytearray) -> list[int] | str:
    try:
        return list(map(int, find(bytes(data))))
    except ProtocolError as error:
        return str(error)


def test_much_data_is_not_gone_through_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = [Stored(bytes(number % 300)) for number in range(6_000)]
    data = stored_from(0, messages)
    assert len(data) > record_heads._MUCH_DATA
    expected = one_by_one(data).tolist()
    monkeypatch.setattr(record_heads, "_positions_one_by_one", None)
    assert record_heads.record_positions(memoryview(data)).tolist() == expected


@given(
    some.lists(some.tuples(some.integers(0, 3), some.integers(0, 5)), max_size=5),
    some.none() | some.tuples(some.integers(0, 2**16), some.integers(0, 255)),
)
def test_records_of_one_size_are_found_as_others_are(
    answers: list[tuple[int, int]], spoilt: tuple[int, int] | None
) -> None:
    """Each answer has so many records with bodies of so many bytes."""
    parts = [stored_from(0, [Stored(bytes(size))] * count) for size, count in answers]
    data = bytearray(b"".join(parts))
    if spoilt is not None and data:
        data[spoilt[0] % len(data)] = spoilt[1]

    def at_a_stroke(octets: bytes) -> record_heads.Positions:
        return record_heads.record_positions(octets, [*map(len, parts)])

    assert found_by(at_a_stroke, data) == found_by(one_by_one, data)


def one_by_one(data: bytes) -> record_heads.Positions:
    return record_heads._positions_one_by_one(data)


def test_records_of_one_size_are_not_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_heads, "_positions_one_by_one", None)
    answers = [stored_from(0, [Stored(bytes(20))] * 2), b"", stored_from(2, [Stored(bytes(9))] * 3)]
    positions = record_heads.record_positions(b"".join(answers), [*map(len, answers)])
    assert len(positions) == 6
    assert positions[2] == len(answers[0])


# What one of them has more in one part, it has less in another; some have flags.
OF_ONE_SIZE = (
    Stored(b"body", b"TAGS\x01abc\x02", b"TT"),
    Stored(b"bodies", b"TAGS\x01a\x02", b"TT"),
    Stored(b"bo", b"TAGS\x01abc\x02", b"TTTT"),
    Stored(b"body", b"TAGS\x01a\x02", b"TTTT"),
    Stored(b"body", b"TAGS\x01abc\x02", b"TT", system_flag=COMPRESSED),
    Stored(b"body", b"TAGS\x01abc\x02", b"TT", system_flag=8),
)


@given(
    some.sampled_from(OF_ONE_SIZE),
    some.integers(1, 6),
    some.none() | some.sampled_from(OF_ONE_SIZE),
    some.none() | some.tuples(some.integers(0, 2**16), some.integers(0, 255)),
)
@settings(max_examples=300)
def test_heads_of_one_size_are_read_as_others_are(
    usual: Stored, count: int, odd: Stored | None, spoilt: tuple[int, int] | None
) -> None:
    """So many of them, perhaps one that differs, and perhaps a byte."""
    data = bytearray(stored_from(0, [*[usual] * count, *([odd] if odd is not None else []), usual]))
    if spoilt is not None:
        data[spoilt[0] % len(data)] = spoilt[1]
    positions = np.arange(0, len(data) + 1, len(usual.at(0)))
    heads, is_usual = record_heads.read_heads(bytes(data), positions, COMPRESSED)
    plain, is_plain = record_heads._read_any(bytes(data), positions, COMPRESSED)
    assert is_usual.tolist() == is_plain.tolist()
    assert heads.heads.tobytes() == plain.heads.tobytes()
    for part in ("body_starts", "topic_starts", "property_starts", "ends"):
        assert getattr(heads, part)[is_usual].tolist() == getattr(plain, part)[is_usual].tolist()


def test_parts_of_the_same_lengths_are_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = record_heads._read_any
    seen: list[record_heads.Positions] = []

    def seen_by(data: bytes, positions: record_heads.Positions, flags: int) -> Any:
        seen.append(positions)
        return plain(data, positions, flags)

    monkeypatch.setattr(record_heads, "_read_any", seen_by)
    data = stored_from(0, [Stored()] * 5)
    heads, is_usual = record_heads.read_heads(data, record_heads.record_positions(data), COMPRESSED)
    assert is_usual.all()
    assert (len(heads), [len(positions) for positions in seen]) == (5, [2])  # only at those of the first


@given(some.binary(max_size=400), some.lists(some.integers(0, 2**16), max_size=4), some.integers(0, 255))
def test_bytes_that_are_no_records_are_refused(tail: bytes, places: list[int], octet: int) -> None:
    spoilt = bytearray(stored_from(0, [Stored()] * 3) + tail)
    for place in places:
        spoilt[place % len(spoilt)] = octet
    pull = Pulled(span(0, 3), [bytes(spoilt)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_batches, "FEW_RECORDS", 0)
        try:
            wanted = expected(pull)
        except (ProtocolError, ValueError):
            with pytest.raises(ProtocolError):
                decoded(pull)
        else:
            assert decoded(pull) == wanted


@pytest.mark.usefixtures("any_number")
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda data: data[:-1], "record at 240 of 359 bytes: its size says 120"),
        (lambda data: data + b"\0\0", "record at 360 of 362 bytes is cut off"),
        (lambda data: data + bytes(91), "record at 360 of 451 bytes: its size says 0"),
        (lambda data: data[:120] + b"\xff" * 4 + data[124:], "record at 120 of 360 bytes: its size says 4294967295"),
        (lambda data: data[:124] + bytes(4) + data[128:], "no record at 120: size 120, magic 00000000"),
        (lambda data: data[:204] + b"\0\0\0\5" + data[208:], "record at 120: "),
        (lambda data: data[:204] + b"\xff\0\0\5" + data[208:], "record at 120: "),
    ],
)
def test_an_error_says_where_it_is(spoil: Any, said: str) -> None:
    data = stored_from(0, [Stored(properties=b"", body=bytes(28))] * 3)
    assert len(data) == 360
    with pytest.raises(ProtocolError, match=said):
        one_batch([Pulled(span(0, 3), [spoil(data)])], SCHEMA)


def test_answers_that_end_within_a_record_are_refused() -> None:
    data = stored_from(0, [Stored()] * 2)
    with pytest.raises(ProtocolError, match="ends within a record"):
        one_batch([Pulled(span(0, 1), [data[:100]]), Pulled(span(1, 2), [data[100:]])], SCHEMA)


# -- rows ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("any_number")
def test_a_row_says_all_there_is_to_know() -> None:
    assert decoded(one_pull(Stored(), first=7)) == [
        {
            "topic": "T",
            "broker": "broker-a",
            "queue_id": 3,
            "queue_offset": 7,
            "msg_id": "7F01",
            "keys": ["k1", "k2"],
            "tags": "TagA",
            "properties": {"KEYS": "k1 k2", "TAGS": "TagA", "UNIQ_KEY": "7F01"},
            "body": b"body",
            "born_timestamp": 1_700_000_000_000_000,
            "store_timestamp": 1_700_000_000_001_000,
            "born_host": "10.0.0.1:50000",
            "reconsume_times": 0,
            "sys_flag": 0,
        }
    ]


@pytest.mark.usefixtures("any_number")
def test_what_a_message_lacks_is_null_and_its_id_is_its_place() -> None:
    (row,) = decoded(one_pull(Stored(properties=b"")))
    assert (row["keys"], row["tags"], row["properties"]) == (None, None, {})
    assert row["msg_id"] == "0A0000010000C3500000000000001000"


@pytest.mark.usefixtures("any_number")
@pytest.mark.parametrize("way", sorted(FLAGS))
def test_compressed_bodies_are_unpacked(way: str) -> None:
    body = b"abc" * 100
    (row,) = decoded(one_pull(Stored(compress(body, way), system_flag=COMPRESSED | FLAGS[way])))
    assert (row["body"], row["sys_flag"] & COMPRESSED) == (body, 0)


@pytest.mark.usefixtures("any_number")
def test_a_body_of_a_client_before_5_is_zlibs() -> None:
    (row,) = decoded(one_pull(Stored(zlib.compress(b"old"), system_flag=COMPRESSED)))
    assert (row["body"], row["sys_flag"]) == (b"old", 0)


@pytest.mark.usefixtures("any_number")
def test_a_body_that_cannot_be_unpacked_is_given_as_it_is() -> None:
    flags = COMPRESSED | COMPRESSION_ZSTD
    rows = decoded(one_pull(Stored(), Stored(b"no zstd", system_flag=flags), Stored()))
    assert [(row["body"], row["sys_flag"]) for row in rows] == [(b"body", 0), (b"no zstd", flags), (b"body", 0)]


@pytest.mark.usefixtures("any_number")
def test_hosts_of_ipv6() -> None:
    both = Stored(system_flag=BORN_HOST_IPV6 | STORE_HOST_IPV6, properties=b"")
    (row,) = decoded(one_pull(both))
    assert row["born_host"] == "[::1]:50000"
    assert row["msg_id"] == "00000000000000000000000000000001" + "0000C350" + "0000000000001000"


@pytest.mark.usefixtures("any_number")
def test_a_batch_kept_as_one_record_is_unwrapped_and_trimmed_message_by_message() -> None:
    inner = [(0, b"%d" % number, b"TAGS\x01t\x02") for number in range(4)]
    data = Stored(encode_batch(inner), system_flag=BATCH).at(10) + Stored().at(14)
    rows = decoded(Pulled(span(12, 15), [data]))
    assert [(row["queue_offset"], row["body"], row["tags"]) for row in rows] == [
        (12, b"2", "t"),
        (13, b"3", "t"),
        (14, b"body", "TagA"),
    ]


@pytest.mark.usefixtures("any_number")
def test_odd_records_stay_in_their_places() -> None:
    plain, packed = Stored(b"p"), Stored(compress(b"c", "lz4"), system_flag=COMPRESSED | FLAGS["lz4"])
    rows = decoded(one_pull(packed, plain, packed, packed, plain, packed))
    assert [row["body"] for row in rows] == [b"c", b"p", b"c", b"c", b"p", b"c"]
    assert [row["queue_offset"] for row in rows] == list(range(6))


@pytest.mark.usefixtures("any_number")
def test_rows_outside_the_span_are_left_out() -> None:
    pulls = [Pulled(span(2, 4, queue), [stored_from(0, [Stored()] * 6)]) for queue in (1, 2)]
    assert [(row["queue_id"], row["queue_offset"]) for row in decoded(*pulls)] == [(1, 2), (1, 3), (2, 2), (2, 3)]


@pytest.mark.usefixtures("any_number")
def test_the_tags_themselves_are_compared() -> None:
    tagged = [Stored(properties=b"TAGS\x01%s\x02" % tag) for tag in (b"Aa", b"BB", b"C", b"Aa")]  # Aa and BB hash alike
    rows = decoded(one_pull(*tagged, Stored(properties=b"")), tags=frozenset(("Aa", "C")))
    assert [(row["queue_offset"], row["tags"]) for row in rows] == [(0, "Aa"), (2, "C"), (3, "Aa")]
    schema = arrow_schema(spark_schema(("queue_offset",)))
    assert one_batch([one_pull(*tagged)], schema, frozenset(("BB",))).to_pylist() == [{"queue_offset": 1}]


@pytest.mark.usefixtures("any_number")
@pytest.mark.parametrize("column", ALL_COLUMNS)
def test_each_column_alone(column: str) -> None:
    pull = one_pull(*[Stored(b"%d" % number) for number in range(4)])
    schema = arrow_schema(spark_schema((column,)), all_properties=True)
    batch = one_batch([pull], schema)
    assert batch.schema.equals(schema)
    assert rows_in(batch) == [{column: row[column]} for row in expected(pull)]


@pytest.mark.usefixtures("any_number")
def test_nothing_is_an_empty_batch() -> None:
    for pulls in ([], [Pulled(span(0, 5), [])], [Pulled(span(0, 5), [b""])]):
        batch = one_batch(pulls, SCHEMA)
        assert (batch.num_rows, batch.schema.equals(SCHEMA)) == (0, True)


def test_many_of_them() -> None:
    stored = [Stored(b"%d" % number, properties=b"N%d\x01x\x02" % number) for number in range(PLENTY)]
    assert decoded(one_pull(*stored)) == expected(one_pull(*stored))


@pytest.mark.usefixtures("all_at_once")
def test_more_names_of_properties_than_a_table_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(property_table, "_MAX_CELLS", 8)
    stored = [Stored(properties=b"a\x01%d\x02b\x01y\x02a\x01z\x02TAGS\x01t\x02" % number) for number in range(9)]
    assert decoded(one_pull(*stored)) == expected(one_pull(*stored))


# -- what is missing -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("any_number")
def test_offsets_that_no_record_has() -> None:
    whole = one_pull(*[Stored()] * 5, first=5)
    assert missing_of(whole) == []
    holes = Pulled(span(0, 9, 1), [Stored().at(2) + Stored().at(3) + Stored().at(6)])
    assert missing_of(whole, holes) == [span(0, 2, 1), span(4, 6, 1), span(7, 9, 1)]


@pytest.mark.usefixtures("any_number")
def test_messages_of_a_batch_are_not_missing() -> None:
    batch = Stored(encode_batch([(0, b"x", b"")] * 3), system_flag=BATCH)
    pull = Pulled(span(1, 5), [batch.at(0) + Stored().at(3) + Stored().at(4)])
    assert missing_of(pull) == []


@pytest.mark.usefixtures("any_number")
def test_what_has_other_tags_is_not_missing() -> None:
    missing: list[OffsetRange] = []
    batch = one_batch([one_pull(Stored(), Stored())], SCHEMA, frozenset(("other",)), tell_missing=missing.append)
    assert (batch.num_rows, missing) == (0, [])
