"""Put and get, through file after file."""

from __future__ import annotations

import pytest

from apogeemq.filter.tags import java_hash
from apogeemq.model.flags import TRANSACTION_COMMIT, TRANSACTION_PREPARED
from apogeemq.protocol.record import decode_record
from apogeemq.store.config import StoreConfig
from apogeemq.store.message_store import MessageStore
from apogeemq.store.results import GetStatus, Got
from tests.unit.store.conftest import LOG_FILE_SIZE, OpenStore, message


def bodies(records: bytes) -> list[bytes]:
    found, position = [], 0
    while position < len(records):
        record = decode_record(records, position)
        found.append(record.body)
        position += record.size
    return found


def bounds(got: Got) -> tuple[GetStatus, int, int, int]:
    return got.status, got.next_offset, got.min_offset, got.max_offset


def drain(store: MessageStore, topic: str, queue_id: int) -> list[bytes]:
    found, offset = [], store.queue(topic, queue_id).min_offset
    while (got := store.get(topic, queue_id, offset, 32, 256 * 1024)).status is GetStatus.FOUND:
        found += bodies(got.records)
        offset = got.next_offset
    return found


def test_messages_come_back_in_order_from_many_files(open_store: OpenStore) -> None:
    store = open_store()
    for number in range(2000):
        put = store.put(message(f"topic-{number % 2}", number % 3, number), 1000 + number)
        assert put.queue_offset == number // 6
    assert len(store.log.files.files) > 3
    for queue in range(6):
        expected = [b"%d" % number for number in range(2000) if (number % 2, number % 3) == (queue % 2, queue % 3)]
        assert drain(store, f"topic-{queue % 2}", queue % 3) == expected


def test_who_waits_at_a_queue_is_told_and_can_read_then(open_store: OpenStore) -> None:
    store = open_store()
    told: list[tuple[int, int, int, bytes]] = []

    def waiter(offset: int, tags_code: int, store_time: int, properties: bytes) -> None:
        assert store.get("T", 1, offset, 1, 1000).status is GetStatus.FOUND
        told.append((offset, tags_code, store_time, properties))
        if len(told) == 2:
            del store.waiting["T", 1]

    store.waiting["T", 1] = waiter
    store.put(message("T", 0, 4), 1233)
    store.put(message("T", 1, 5), 1234)
    store.put(message("T", 1, 6, system_flag=TRANSACTION_PREPARED), 1235)
    store.put(message("T", 1, 7), 1236)
    store.put(message("T", 1, 8), 1237)
    assert told == [
        (0, java_hash("T2"), 1234, message("T", 1, 5).properties),
        (1, java_hash("T1"), 1236, message("T", 1, 7).properties),
    ]


def test_a_record_never_crosses_a_file(open_store: OpenStore) -> None:
    store = open_store()
    for number in range(20):
        put = store.put(message("T", 0, number, body=bytes(20_000)), 0)
        assert put.physical_offset // LOG_FILE_SIZE == (put.physical_offset + put.size - 1) // LOG_FILE_SIZE
    assert len(drain(store, "T", 0)) == 20


def test_offsets_outside_the_queue_are_corrected(open_store: OpenStore) -> None:
    store = open_store()
    assert store.get("T", 0, 0, 32, 1000).status is GetStatus.NO_MATCHED_LOGIC_QUEUE
    store.queue("T", 0)
    assert store.get("T", 0, 0, 32, 1000).status is GetStatus.NO_MESSAGE_IN_QUEUE
    for number in range(3):
        store.put(message("T", 0, number), 0)
    assert bounds(store.get("T", 0, 3, 32, 1000)) == (GetStatus.OFFSET_OVERFLOW_ONE, 3, 0, 3)
    assert bounds(store.get("T", 0, 9, 32, 1000)) == (GetStatus.OFFSET_OVERFLOW_BADLY, 3, 0, 3)
    assert bounds(store.get("T", 0, -1, 32, 1000)) == (GetStatus.OFFSET_TOO_SMALL, 0, 0, 3)


def test_tags_are_filtered_by_hash_and_the_offset_moves_past_others(open_store: OpenStore) -> None:
    store = open_store()
    for number in range(9):
        store.put(message("T", 0, number), 0)
    got = store.get("T", 0, 0, 32, 100_000, {java_hash("T1")})
    assert (bodies(got.records), got.next_offset) == ([b"1", b"4", b"7"], 9)
    nothing = store.get("T", 0, 0, 32, 100_000, {java_hash("other")})
    assert (nothing.status, nothing.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 9)


def test_an_answer_is_bounded_in_messages_and_bytes_but_never_empty_for_a_large_one(open_store: OpenStore) -> None:
    store = open_store()
    for number in range(10):
        store.put(message("T", 0, number, body=bytes(5000)), 0)
    assert store.get("T", 0, 0, 4, 10**6).message_count == 4
    assert store.get("T", 0, 0, 32, 11_000).message_count == 2
    assert store.get("T", 0, 0, 32, 10).message_count == 1


def test_a_large_answer_and_one_that_spans_files_are_as_the_small_ones(open_store: OpenStore) -> None:
    store = open_store()
    for number in range(1000):
        store.put(message("T", number % 2, number), 0)
    assert len(store.log.files.files) > 1
    for offset in range(0, 500, 7):
        got = store.get("T", 1, offset, 7, 10**6)
        expected = [b"%d" % number for number in range(offset * 2 + 1, min(offset * 2 + 15, 1000), 2)]
        assert bodies(got.records) == expected[: got.message_count]
        assert got.next_offset == offset + got.message_count
    assert store.get("T", 1, 0, 80, 10**6).message_count == 80
    assert store.get("T", 1, 400, 300, 10**6).message_count == 100


@pytest.mark.parametrize("side_by_side", [1, 2, 31, 500])
def test_answers_of_many_messages_have_what_those_of_one_have(
    config: StoreConfig, open_store: OpenStore, side_by_side: int
) -> None:
    config.mapped_file_size_consume_queue = 5_000 * 20
    config.mapped_file_size_commit_log = 8 * LOG_FILE_SIZE
    store = open_store()
    for number in range(8_000):
        store.put(message("T", number // side_by_side % 2, number), 0)
    assert len(store.log.files.files) > 1
    assert store.get("T", 1, 0, 1_000, 10**6).message_count == 1_000
    queue_end = store.queue("T", 1).max_offset
    singles = [store.get("T", 1, offset, 1, 10**6).records for offset in range(queue_end)]
    for max_messages, max_bytes in ((257, 10**6), (1_000, 10**6), (1_000, 100_000), (4_000, 10**6), (1_000, 700)):
        offset = 0
        while offset < queue_end:
            got = store.get("T", 1, offset, max_messages, max_bytes)
            assert got.records == b"".join(singles[offset : offset + got.message_count])
            assert got.next_offset == offset + got.message_count
            assert 0 < got.message_count <= max_messages and len(got.records) <= max_bytes
            offset = got.next_offset


def test_messages_are_found_by_key_newest_first_within_the_time(open_store: OpenStore) -> None:
    store = open_store()
    for number in range(300):
        store.put(message("T", 0, number % 50), 1_000_000 + number * 1000)
    found = store.find_by_key("T", "k7", 0, 2**62, 10)
    assert [record.queue_offset for record in found] == [257, 207, 157, 107, 57, 7]
    assert [record.queue_offset for record in store.find_by_key("T", "k7", 1_100_000, 1_200_000, 10)] == [157, 107]
    assert len(store.find_by_key("T", "U7", 0, 2**62, 4)) == 4
    assert store.find_by_key("other", "k7", 0, 2**62, 10) == []


def test_prepared_messages_are_in_the_log_but_in_no_queue(open_store: OpenStore) -> None:
    store = open_store()
    put = store.put(message("T", 0, 1, system_flag=TRANSACTION_PREPARED), 0)
    assert store.log.record_at(put.physical_offset) is not None
    assert store.queue("T", 0).max_offset == 0
    store.put(message("T", 0, 2, system_flag=TRANSACTION_COMMIT), 0)
    assert drain(store, "T", 0) == [b"2"]


def test_store_time_never_goes_back(open_store: OpenStore) -> None:
    store = open_store()
    times = [store.put(message("T", 0, number), now).store_time for number, now in enumerate((500, 400, 600))]
    assert times == [500, 500, 600]


def test_many_queues_work_with_few_maps(open_store: OpenStore, config: StoreConfig) -> None:
    config.max_mapped_queue_files = 5
    store = open_store()
    for number in range(200):
        store.put(message("T", number % 40, number), 0)
    assert store.mapped_queue_file_count <= 5
    for queue_id in range(40):
        assert drain(store, "T", queue_id) == [b"%d" % number for number in range(queue_id, 200, 40)]
