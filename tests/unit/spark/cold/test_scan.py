"""A scan of a whole folder gives what its broker stored."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from apogeemq.errors import ConfigError, StorageFailed
from apogeemq.model.flags import BORN_HOST_IPV6, COMPRESSED, TRANSACTION_COMMIT, TRANSACTION_PREPARED
from apogeemq.model.topics import HALF_TOPIC, SCHEDULE_TOPIC
from apogeemq.protocol.batch import encode_batch
from apogeemq.spark.reading import merged_batches
from apogeemq.spark.reading.record_batches import FEW_RECORDS
from tests.unit.spark.cold.conftest import BORN_MS, STORED_MS, Filled, numbers, reader_of, scan

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(time_ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=time_ms)


def test_every_column_says_what_was_stored(filled: Filled) -> None:
    filled.put("Orders", 7, queue_id=3)
    assert scan(filled.root, brokerName="broker-a", includeProperties="all") == [
        {
            "topic": "Orders",
            "broker": "broker-a",
            "queue_id": 3,
            "queue_offset": 0,
            "msg_id": "U7",
            "keys": ["k7"],
            "tags": "T1",
            "properties": [("KEYS", "k7"), ("TAGS", "T1"), ("UNIQ_KEY", "U7")],
            "body": b"7",
            "born_timestamp": moment(BORN_MS),
            "store_timestamp": moment(STORED_MS + 7),
            "born_host": "127.0.0.1:10911",
            "reconsume_times": 0,
            "sys_flag": 0,
        }
    ]
    (row,) = scan(filled.root)
    assert row["broker"] is None


@pytest.mark.parametrize("count", [1, FEW_RECORDS + 1])
def test_properties_that_have_columns_are_not_given_twice(filled: Filled, count: int) -> None:
    for number in range(count):
        filled.put("Orders", number)
    found = scan(filled.root)
    assert [(row["msg_id"], row["properties"]) for row in found] == [(f"U{number}", []) for number in range(count)]


def test_every_message_of_every_file_comes_once_and_in_order(filled: Filled) -> None:
    filled.fill("Orders", 3000)
    assert len(filled.store.log.files.files) > 5
    rows = scan(filled.root)
    assert numbers(rows) == list(range(3000))
    assert [row["queue_offset"] for row in rows] == [number // 4 for number in range(3000)]
    assert {row["queue_id"] for row in rows} == {0, 1, 2, 3}


def test_nothing_is_written_to_the_folder(filled: Filled) -> None:
    filled.fill("Orders", 100)
    filled.close()
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in filled.root.rglob("*")}
    for path in filled.root.rglob("*"):
        path.chmod(0o500 if path.is_dir() else 0o400)
    assert len(scan(filled.root)) == 100
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in filled.root.rglob("*")} == before
    for path in filled.root.rglob("*"):
        path.chmod(0o700)


def test_an_empty_store_is_an_empty_table(filled: Filled) -> None:
    (filled.root / "commitlog").mkdir(parents=True)
    assert scan(filled.root) == []


def test_records_of_every_layout_come_in_their_place(filled: Filled) -> None:
    text = b"text" * 100
    for number in range(0, 2 * FEW_RECORDS, 4):
        filled.put("Plain", number)
        filled.put("Packed", number + 1, body=zlib.compress(text), system_flag=COMPRESSED)
        filled.put("%RETRY%" + "long" * 40, number + 2)
        filled.put("Far", number + 3, system_flag=BORN_HOST_IPV6, host=bytes(15) + b"\x01" + b"\x00\x00\x00\x50")
    rows = scan(filled.root)
    assert [row["msg_id"] for row in rows] == [f"U{number}" for number in range(2 * FEW_RECORDS)]
    plain, packed, long, far = rows[:4]
    assert (plain["topic"], plain["body"]) == ("Plain", b"0")
    assert (packed["topic"], packed["body"], packed["sys_flag"]) == ("Packed", text, 0)
    assert (long["topic"], long["queue_offset"]) == ("%RETRY%" + "long" * 40, 0)
    assert (far["topic"], far["born_host"], far["store_timestamp"]) == ("Far", "[::1]:80", moment(STORED_MS + 3))


def test_what_unpacks_to_much_comes_in_several_batches_and_in_order(
    filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merged_batches, "BYTES", 20_000)
    for number in range(20):
        body = b"%d." % number + b"x" * 10_000
        is_packed = number % 3 == 1
        filled.put("T", number, body=zlib.compress(body) if is_packed else body, system_flag=COMPRESSED * is_packed)
    reader = reader_of(filled.root, brokerName="broker-a")
    (partition,) = reader.partitions()
    batches = list(reader.read(partition))
    assert len(batches) > 3
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert numbers(rows) == list(range(20))
    assert {(row["broker"], len(row["body"]) > 9999) for row in rows} == {("broker-a", True)}


def test_properties_of_any_kind_are_read(filled: Filled) -> None:
    for number, text in enumerate((b"", b"a\x01b", b"\x02\x02a\x01b\x02", b"a\x01\xff\x02", b"a\x01b\x02a\x01c\x02")):
        filled.put("Odd", number, properties=text)
    filled.fill("Plain", FEW_RECORDS)
    rows = scan(filled.root)[:5]
    assert [row["properties"] for row in rows] == [[], [("a", "b")], [("a", "b")], [("a", "\ufffd")], [("a", "c")]]
    assert all(row["msg_id"].startswith("7F000001") for row in rows)  # the place, as it has no id
    assert {(row["tags"], row["keys"]) for row in rows} == {(None, None)}


def test_a_batch_kept_as_one_record_becomes_its_messages(filled: Filled) -> None:
    inner = encode_batch([(0, b"1", b"TAGS\x01a\x02"), (0, b"2", b"TAGS\x01b\x02")])
    filled.put("Batches", 0, body=inner, system_flag=0xC0)
    filled.put("Batches", 5)
    rows = scan(filled.root)
    assert [(row["body"], row["tags"], row["queue_offset"]) for row in rows] == [
        (b"1", "a", 0),
        (b"2", "b", 1),
        (b"5", "T2", 1),
    ]


def test_what_brokers_write_for_themselves_is_shown_when_asked_for(filled: Filled) -> None:
    filled.put("Orders", 1)
    filled.put(SCHEDULE_TOPIC, 2)
    filled.put(HALF_TOPIC, 3)
    filled.put("RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", 7)
    filled.put("Orders", 4, system_flag=TRANSACTION_PREPARED)
    filled.put("Orders", 5, system_flag=TRANSACTION_COMMIT)
    filled.put("%RETRY%group", 6)
    assert numbers(scan(filled.root)) == [1, 5, 6]
    assert numbers(scan(filled.root, includeInternal=True)) == [1, 2, 3, 7, 4, 5, 6]
    assert numbers(scan(filled.root, topics=f"{SCHEDULE_TOPIC},{HALF_TOPIC}")) == [2, 3]
    assert numbers(scan(filled.root, topicsPattern=".*")) == [1, 5, 6]


def test_topics_are_chosen_by_name_or_pattern(filled: Filled) -> None:
    for number, topic in enumerate(("Orders", "Bills", "Orders2")):
        filled.put(topic, number)
    assert numbers(scan(filled.root, topics="Bills, Orders")) == [0, 1]
    assert numbers(scan(filled.root, topicsPattern="Orders.?")) == [0, 2]
    assert scan(filled.root, topics="Nobody") == []


def test_messages_of_deleted_topics_are_still_there(filled: Filled) -> None:
    filled.fill("Gone", 10)
    filled.store.delete_topic("Gone")
    assert numbers(scan(filled.root)) == list(range(10))


def test_times_are_from_the_first_to_before_the_second(filled: Filled) -> None:
    filled.fill("Orders", 2000)
    chosen = {"startingTimestamp": STORED_MS + 500, "endingTimestamp": STORED_MS + 700}
    assert numbers(scan(filled.root, **chosen)) == list(range(500, 700))
    assert numbers(scan(filled.root, startingTimestamp=STORED_MS + 1990)) == list(range(1990, 2000))
    assert scan(filled.root, startingTimestamp=STORED_MS + 2000) == []


def test_files_of_other_times_are_not_read(filled: Filled) -> None:
    hour_ms = 3_600_000
    for hour in range(8):
        for number in range(400):
            filled.put("Orders", number, time_ms=STORED_MS + hour * hour_ms + number)
    count = len(filled.store.log.files.files)
    reader = reader_of(
        filled.root,
        maxBytesPerPartition=1,
        startingTimestamp=STORED_MS + 3 * hour_ms,
        endingTimestamp=STORED_MS + 4 * hour_ms,
    )
    assert count > 6
    assert len(reader.partitions()) <= 3


def test_columns_can_be_spared(filled: Filled) -> None:
    filled.fill("Orders", 2 * FEW_RECORDS)
    rows = scan(filled.root, columns="queue_offset,topic")
    assert rows[5] == {"queue_offset": 1, "topic": "Orders"}
    rows = scan(filled.root, includeBody=False, includeProperties=False)
    assert set(rows[0]) & {"body", "properties"} == set()
    assert rows[0]["keys"] == ["k0"]


def test_the_log_may_be_elsewhere(filled: Filled, tmp_path: Path) -> None:
    filled.fill("Orders", 1200)
    filled.close()
    files = sorted((filled.root / "commitlog").iterdir())
    for name, some in (("one", files[::2]), ("other", files[1::2])):
        (tmp_path / name).mkdir()
        for file in some:
            file.rename(tmp_path / name / file.name)
    both = f"{tmp_path / 'one'},{tmp_path / 'other'}"
    assert numbers(scan(filled.root, commitLogPath=both)) == list(range(1200))
    with pytest.raises(StorageFailed, match="there is no folder"):
        scan(filled.root, commitLogPath=tmp_path / "nowhere")


def test_the_path_may_be_a_uri_or_the_folder_of_the_log(filled: Filled) -> None:
    filled.fill("Orders", 10)
    assert len(scan(f"file://{filled.root}")) == 10
    assert len(scan(f"file://{filled.root}?how=anyhow")) == 10
    assert len(scan(filled.root / "commitlog")) == 10
    with pytest.raises(ConfigError, match="cannot read from nosuch://there"):
        scan("nosuch://there/x")


def test_a_folder_that_is_no_store_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageFailed, match="has neither a folder commitlog nor files of a log"):
        scan(tmp_path)
    with pytest.raises(StorageFailed, match="there is no folder"):
        scan(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"topics": "a", "topicsPattern": "b"}, "topics and topicsPattern exclude each other"),
        ({"topicsPattern": "("}, "option topicsPattern is '('"),
        ({"startingTimestamp": 2, "endingTimestamp": 1}, "startingTimestamp (2) is after endingTimestamp (1)"),
        ({"onCorrupt": "ignore"}, "option onCorrupt is 'ignore': expected one of fail, skip"),
        ({"maxBytesPerPartition": 0}, "maxBytesPerPartition"),
        ({"columns": "bodies"}, "columns"),
        ({"subscribe": "T"}, "unknown option subscribe"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, options: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError) as raised:
        reader_of(tmp_path, **options)
    assert complaint in str(raised.value)


def test_a_path_is_needed() -> None:
    with pytest.raises(ConfigError, match="option path is missing"):
        reader_of("")
