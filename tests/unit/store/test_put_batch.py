"""Batches: many messages of one queue at once, all of them or none."""

from __future__ import annotations

import pytest

from apogeemq.errors import StorageFailed
from apogeemq.filter.tags import java_hash
from apogeemq.protocol.batch import BatchEntries, encode_batch
from apogeemq.store.message_store import MessageStore
from apogeemq.store.results import PutBatch
from tests.unit.disk import file_size_limit
from tests.unit.store.conftest import LOG_FILE_SIZE, QUEUE_FILE_SIZE, OpenStore, message
from tests.unit.store.test_message_store import drain
from tests.unit.store.test_recovery import crash


def put_batch(store: MessageStore, queue_id: int, numbers: range, now_ms: int = 0, body: bytes = b"") -> PutBatch:
    messages = [message("T", queue_id, number) for number in numbers]
    parts = [(m.flag, body or m.body, m.properties) for m in messages]
    return store.put_batch(messages[0], BatchEntries(encode_batch(parts)), now_ms)


def expected(numbers: range) -> list[bytes]:
    return [b"%d" % number for number in numbers]


def test_a_batch_is_what_single_messages_would_have_been(open_store: OpenStore) -> None:
    store = open_store()
    put_batch(store, 0, range(40), 1000)
    for number in range(40):
        store.put(message("T", 1, number), 1000)
    for offset in range(40):
        first, second = (store.queue("T", queue_id).entry(offset) for queue_id in (0, 1))
        assert first is not None and second is not None
        assert first[1:] == second[1:]
        one, other = store.log.record_at(first[0]), store.log.record_at(second[0])
        assert one is not None and other is not None
        assert one._replace(queue_id=1, physical_offset=second[0]) == other


def test_it_says_where_each_message_went(open_store: OpenStore) -> None:
    store = open_store()
    store.put(message("T", 0, 0), 5000)
    put = put_batch(store, 0, range(1, 10), 1000)
    assert (put.queue_offset, put.store_time, put.end) == (1, 5000, store.log.max_offset)
    records = [store.log.record_at(offset) for offset in put.physical_offsets]
    assert [record and record.body for record in records] == expected(range(1, 10))
    assert [record and record.queue_offset for record in records] == list(range(1, 10))


def test_batches_go_through_file_after_file(open_store: OpenStore) -> None:
    store = open_store()
    for start in range(0, 3000, 30):
        put = put_batch(store, start // 30 % 2, range(start, start + 30), start)
        assert put.physical_offsets[0] // LOG_FILE_SIZE == (put.end - 1) // LOG_FILE_SIZE
    for queue_id in (0, 1):
        wanted = [n for start in range(queue_id * 30, 3000, 60) for n in range(start, start + 30)]
        assert drain(store, "T", queue_id) == [b"%d" % number for number in wanted]
    assert [record.body for record in store.find_by_key("T", "k1234", 0, 2**62, 9)] == [b"1234"]
    crash(store)
    assert len(drain(open_store(), "T", 0)) == 1500


def test_a_batch_larger_than_a_queue_file_spans_several(open_store: OpenStore) -> None:
    store = open_store()
    put_batch(store, 0, range(250))
    put_batch(store, 0, range(250, 350))
    assert drain(store, "T", 0) == expected(range(350))


def test_large_batches_and_small_messages_lie_one_after_the_other(open_store: OpenStore) -> None:
    store, body = open_store(), bytes(range(1, 251)) * 4
    for start in range(0, 300, 30):
        put_batch(store, 0, range(start, start + 20), body=body)
        for number in range(start + 20, start + 30):
            store.put(message("T", 0, number), 0)
    wanted = [body if number % 30 < 20 else b"%d" % number for number in range(300)]
    assert drain(store, "T", 0) == wanted
    crash(store)
    assert drain(open_store(), "T", 0) == wanted


def test_a_large_batch_that_is_written_in_part_leaves_nothing(open_store: OpenStore) -> None:
    store = open_store()
    store.put(message("T", 0, 0), 0)
    end = store.log.max_offset
    with file_size_limit(end + 5_000), pytest.raises(OSError, match="File too large"):
        put_batch(store, 0, range(1, 21), body=b"b" * 1_000)
    assert (store.log.max_offset, store.queue("T", 0).max_offset) == (end, 1)
    assert not store.log.files.read(end, 20_000).strip(b"\0")
    put_batch(store, 0, range(1, 21))
    crash(store)
    assert drain(open_store(), "T", 0) == expected(range(21))


def test_messages_of_a_batch_may_have_many_keys_or_none(open_store: OpenStore) -> None:
    store = open_store()
    keys = [" ".join(f"k{n % 5}-{turn}" for turn in range(n % 4)) for n in range(100)]
    parts = [(0, b"%d" % n, f"KEYS\x01{keys[n]}\x02".encode()) for n in range(100)]
    put = store.put_batch(message("T", 0, 0), BatchEntries(encode_batch(parts)), 1000)
    for number in range(5):
        for turn in range(3):
            wanted = [n for n in range(99, -1, -1) if n % 5 == number and n % 4 > turn]
            found = store.index.find("T", f"k{number}-{turn}", 0, 2**62, 100)
            assert found == [put.physical_offsets[n] for n in wanted]


def test_batches_to_several_topics_are_found_by_their_unique_keys(open_store: OpenStore) -> None:
    """Keys, tags and topics change between batches, and within them, from one message to the next."""
    store = open_store()
    where: dict[tuple[str, str], list[int]] = {}
    for number, topic in enumerate(["T", "T", "U", "T", "U", "U"]):
        keys = [f"7F0000010FA018B4AAC2{number // 2:06X}{n:06X}" for n in range(number, number + 4)]
        parts = [(0, b"b", f"UNIQ_KEY\x01{key}\x02TAGS\x01t{number // 3}\x02".encode()) for key in keys]
        put = store.put_batch(message(topic, 0, 0), BatchEntries(encode_batch(parts)), 1000)
        for key, offset in zip(keys, put.physical_offsets, strict=True):
            where.setdefault((topic, key), []).append(offset)
    for (topic, key), offsets in where.items():
        assert store.index.find(topic, key, 0, 2**62, 100) == offsets[::-1]
    tags = [store.queue("U", 0).entry(offset) for offset in range(12)]
    assert [entry[2] for entry in tags if entry] == [java_hash("t0")] * 4 + [java_hash("t1")] * 8


def test_a_batch_larger_than_a_log_file_is_refused_whole(open_store: OpenStore) -> None:
    store = open_store()
    store.put(message("T", 0, 0), 0)
    end = store.log.max_offset
    with pytest.raises(StorageFailed, match="does not fit"):
        put_batch(store, 0, range(1, 20), body=bytes(4000))
    assert (store.log.max_offset, store.queue("T", 0).max_offset) == (end, 1)
    put_batch(store, 0, range(1, 10))
    assert drain(store, "T", 0) == expected(range(10))


def test_a_full_disk_takes_none_of_it(open_store: OpenStore) -> None:
    store = open_store()
    put_batch(store, 0, range(90))
    end = store.log.max_offset
    with file_size_limit(QUEUE_FILE_SIZE - 1), pytest.raises(OSError, match="File too large"):
        put_batch(store, 0, range(90, 110))  # its second half needs another queue file
    assert (store.log.max_offset, store.queue("T", 0).max_offset) == (end, 90)
    with file_size_limit(LOG_FILE_SIZE - 1), pytest.raises(OSError, match="File too large"):
        put_batch(store, 0, range(90, 105), body=bytes(4000))  # it needs another log file
    assert (store.log.max_offset, store.queue("T", 0).max_offset) == (end, 90)
    assert drain(store, "T", 0) == expected(range(90))
    put_batch(store, 0, range(90, 110))
    store.close()
    assert drain(open_store(), "T", 0) == expected(range(110))


def test_who_waits_is_told_of_each_until_satisfied_when_all_can_be_read(open_store: OpenStore) -> None:
    store = open_store()
    told: list[int] = []

    def waiter(offset: int, tags_code: int, store_time: int, properties: bytes) -> None:
        assert store.queue("T", 0).max_offset == 10
        assert properties == message("T", 0, offset).properties
        told.append(offset)
        if offset == 3:
            del store.waiting["T", 0]

    store.waiting["T", 0] = waiter
    put_batch(store, 0, range(10))
    assert told == [0, 1, 2, 3]
