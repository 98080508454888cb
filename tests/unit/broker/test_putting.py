"""The one way into the store: limits, delays, and a store that cannot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from apogeemq.broker.putting import NO_ROOM_REMARK, Putter
from apogeemq.errors import RequestRefused
from apogeemq.model.delays import DelayLevels
from apogeemq.model.flags import TRANSACTION_PREPARED
from apogeemq.model.properties import MAX_SIZE, decode_properties, encode_properties
from apogeemq.model.topics import SCHEDULE_TOPIC
from apogeemq.protocol.batch import BatchEntries, encode_batch
from apogeemq.protocol.codes import ResponseCode
from apogeemq.store.config import StoreConfig
from apogeemq.store.message_store import MessageStore
from apogeemq.store.results import Put
from apogeemq.testing.faulty_files import full_disk
from tests.unit.store.conftest import message, tags_code_of

NOW = 1_000_000


class Putting:
    def __init__(self, root: Path) -> None:
        config = StoreConfig(
            store_path_root_dir=str(root),
            mapped_file_size_commit_log=64 * 1024,
            mapped_file_size_consume_queue=2000,
            max_hash_slot_num=100,
            max_index_num=1000,
            max_message_size=1000,
        )
        self.store = MessageStore(config, tags_code_of)
        self.putter = Putter(self.store, DelayLevels("1s 5s"), lambda: NOW)

    def put(self, said: dict[str, str] | None = None, **more: object) -> Put:
        made = msgspec.structs.replace(
            message("T", 3, 0), **{"properties": encode_properties(said or {}).encode(), **more}
        )
        return self.putter.put(made, said or {})

    def refused(self, said: dict[str, str] | None = None, **more: object) -> RequestRefused:
        """Nothing of it is stored."""
        before = self.store.log.max_offset, {key: queue.max_offset for key, queue in self.store.queues.items()}
        with pytest.raises(RequestRefused) as caught:
            self.put(said, **more)
        after = {key: queue.max_offset for key, queue in self.store.queues.items() if queue.max_offset}
        assert (self.store.log.max_offset, after) == (before[0], {k: v for k, v in before[1].items() if v})
        return caught.value


@pytest.fixture
def putting(tmp_path: Path) -> Iterator[Putting]:
    made = Putting(tmp_path)
    yield made
    made.store.close()


def test_a_message_is_put_where_it_belongs(putting: Putting) -> None:
    put = putting.put({"TAGS": "A"})
    assert (put.physical_offset, put.queue_offset, put.store_time) == (0, 0, NOW)
    record = putting.store.log.record_at(0)
    assert record is not None
    assert (record.topic, record.queue_id) == (b"T", 3)


@pytest.mark.parametrize(
    ("level", "queue_id", "due"),
    [("1", 0, NOW + 1000), ("2", 1, NOW + 5000), ("7", 1, NOW + 5000), ("+1", 0, NOW + 1000)],
)
def test_a_delayed_message_goes_to_the_queue_of_its_level(
    putting: Putting, level: str, queue_id: int, due: int
) -> None:
    sent = {"DELAY": level, "TIMER_DELAY_MS": "7", "a": "b"}
    put = putting.put(sent)
    queue = putting.store.queues[SCHEDULE_TOPIC, queue_id]
    assert queue.entry(0) == (put.physical_offset, put.size, due)
    record = putting.store.log.record_at(put.physical_offset)
    assert record is not None
    assert decode_properties(record.properties.decode()) == {
        "DELAY": str(queue_id + 1),
        "a": "b",
        "REAL_TOPIC": "T",
        "REAL_QID": "3",
    }


@pytest.mark.parametrize("level", ["0", "-1", "-99"])
def test_what_is_not_delayed(putting: Putting, level: str) -> None:
    putting.put({"DELAY": level})
    assert set(putting.store.queues) == {("T", 3)}


def test_half_messages_are_not_delayed(putting: Putting) -> None:
    putting.put({"DELAY": "1"}, system_flag=TRANSACTION_PREPARED)
    assert (SCHEDULE_TOPIC, 0) not in putting.store.queues


def test_limits_of_size(putting: Putting) -> None:
    putting.put(body=bytes(1000))
    putting.put(properties=b"p" * MAX_SIZE)
    for refusal in (putting.refused(body=bytes(1001)), putting.refused(properties=b"p" * (MAX_SIZE + 1))):
        assert refusal.code == ResponseCode.MESSAGE_ILLEGAL
        assert refusal.remark == (
            "the message is illegal, maybe msg body or properties length not matched. "
            "msg body length limit 1000B, msg properties length limit 32KB."
        )
    assert putting.putter.failure_count == 2


def test_a_delay_needs_room_to_say_where_the_message_belongs(putting: Putting) -> None:
    properties = {"DELAY": "1", "p": ""}
    properties["p"] = "x" * (MAX_SIZE - len(encode_properties(properties)))
    assert putting.refused(properties).code == ResponseCode.MESSAGE_ILLEGAL


@pytest.mark.parametrize("row", [b"a\x01" + bytes(16) + b"\x02", b"a\x01" + bytes(2000) + b"b\x02", b"a\x01b\0"])
def test_zeros_that_a_crash_could_not_tell_from_bytes_never_written(putting: Putting, row: bytes) -> None:
    refusal = putting.refused(properties=row)
    assert (refusal.code, refusal.remark) == (
        ResponseCode.MESSAGE_ILLEGAL,
        "the message is illegal, its properties hold a row of zero bytes",
    )


def test_a_stray_zero_is_somebodys_data(putting: Putting) -> None:
    putting.put(properties=b"a\0\x01" + bytes(15) + b"\x02")


def test_a_store_that_is_not_writable(putting: Putting) -> None:
    putting.store.disk_problem = "CL:  0.95 CQ:  0.95 INDEX:  0.95"
    refusal = putting.refused()
    assert refusal.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert refusal.remark == (
        "service not available now. It may be caused by one of the following reasons: the broker's disk is full "
        "[CL:  0.95 CQ:  0.95 INDEX:  0.95], messages are put to the slave, message store has been shut down, etc."
    )
    shared = message("T", 0, 0)
    with pytest.raises(RequestRefused, match="the broker's disk is full"):
        putting.putter.put_batch(shared, BatchEntries(encode_batch([(0, b"b", b"")])))
    putting.store.disk_problem = None
    putting.put()


def test_a_disk_without_room(putting: Putting, tmp_path: Path) -> None:
    with full_disk(tmp_path):
        refusal = putting.refused()
        assert (refusal.code, refusal.remark) == (ResponseCode.SYSTEM_ERROR, NO_ROOM_REMARK)
        with pytest.raises(RequestRefused, match="create mapped file failed"):
            putting.putter.put_batch(message("T", 0, 0), BatchEntries(encode_batch([(0, b"b", b"")])))
    assert putting.put().physical_offset == 0
    assert putting.putter.failure_count == 2


def test_a_batch_that_fits_no_file(putting: Putting) -> None:
    batch = BatchEntries(encode_batch([(0, bytes(900), b"")] * 100))
    with pytest.raises(RequestRefused, match="create mapped file failed"):
        putting.putter.put_batch(message("T", 0, 0), batch)
    assert putting.store.log.max_offset == 0
