"""However the last process ended, the store opens with all that was kept."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from apogeemq.errors import StorageFailed
from apogeemq.store.config import StoreConfig
from apogeemq.store.layout import CHECKPOINT
from apogeemq.store.message_store import MessageStore
from apogeemq.store.recovery import ABORT_FILE, CHECKPOINT_FILE, recover
from apogeemq.store.upkeep.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from tests.unit.store.conftest import LOG_FILE_SIZE, OpenStore, message, tags_code_of
from tests.unit.store.test_message_store import drain

COUNT = 1500


def fill(store: MessageStore) -> list[int]:
    """Puts messages into four queues; gives where each ended in the log."""
    ends = []
    for number in range(COUNT):
        put = store.put(message("T", number % 4, number), 1000 + number)
        ends.append(put.physical_offset + put.size)
    return ends


def holds(store: MessageStore, count: int) -> None:
    for queue_id in range(4):
        assert drain(store, "T", queue_id) == [b"%d" % number for number in range(queue_id, count, 4)]


def crash(store: MessageStore) -> Path:
    """What a killed process leaves: everything written, and the abort file."""
    store.close()
    root = Path(store.config.store_path_root_dir)
    (root / ABORT_FILE).touch()
    return root


def test_after_a_clean_stop_nothing_is_read_again(open_store: OpenStore, config: StoreConfig) -> None:
    fill(open_store())
    again = MessageStore(config, tags_code_of)
    result = recover(again)
    assert result.was_clean
    assert result.record_count == 0
    holds(again, COUNT)
    assert again.put(message("T", 0, COUNT), 9999).queue_offset == COUNT // 4
    again.close()


def test_after_a_crash_queues_and_index_are_built_again(open_store: OpenStore) -> None:
    root = crash_filled(open_store)
    shutil.rmtree(root / "consumequeue")
    shutil.rmtree(root / "index")
    store = open_store()
    holds(store, COUNT)
    assert [record.body for record in store.find_by_key("T", "k77", 0, 2**62, 9)] == [b"77"]


def test_after_a_crash_only_what_the_checkpoint_does_not_vouch_for_is_read(
    open_store: OpenStore, config: StoreConfig
) -> None:
    store = open_store()
    ends = fill(store)
    root = crash(store)
    write_checkpoint(root / CHECKPOINT_FILE, Checkpoint(2000, 2000, 2000, complete_until=ends[1399]))
    again = MessageStore(config, tags_code_of)
    result = recover(again)
    assert (result.scanned_from, result.record_count, result.end_offset) == (ends[1399], 100, ends[-1])
    holds(again, COUNT)
    assert [record.body for record in again.find_by_key("T", "k1450", 0, 2**62, 9)] == [b"1450"]
    again.close()


def test_an_offset_at_which_no_message_ends_is_not_believed(open_store: OpenStore, config: StoreConfig) -> None:
    store = open_store()
    ends = fill(store)
    root = crash(store)
    write_checkpoint(root / CHECKPOINT_FILE, Checkpoint(2000, 2000, 2000, complete_until=ends[1399] + 1))
    again = MessageStore(config, tags_code_of)
    assert recover(again).record_count > 100
    holds(again, COUNT)
    again.close()


def test_what_we_wrote_counts_no_more_when_another_broker_wrote_the_checkpoint(open_store: OpenStore) -> None:
    store = open_store()
    ends = fill(store)
    path = crash(store) / CHECKPOINT_FILE
    write_checkpoint(path, Checkpoint(2000, 2000, 2000, complete_until=ends[1399]))
    assert read_checkpoint(path).complete_until == ends[1399]
    with path.open("r+b") as file:
        file.write(CHECKPOINT.pack(2001, 2000, 2000, 0, 0))
    assert read_checkpoint(path) == Checkpoint(2001, 2000, 2000)


def crash_filled(open_store: OpenStore) -> Path:
    store = open_store()
    fill(store)
    return crash(store)


@pytest.mark.parametrize("topic", ["%RETRY%group+topic", "rmq_sys_REVIVE_LOG_my cluster.1"])
def test_topics_that_only_brokers_name_are_no_damage(open_store: OpenStore, topic: str) -> None:
    """Apache's has them: of messages that were popped, and after its cluster."""
    store = open_store()
    store.put(message(topic, 0, 7), 1000)
    root = crash(store)
    shutil.rmtree(root / "consumequeue")
    assert drain(open_store(), topic, 0) == [b"7"]


@pytest.mark.parametrize("topic", ["../../elsewhere", "..", "a/b"])
def test_a_topic_that_leads_out_of_the_store_is_damage(open_store: OpenStore, topic: str) -> None:
    store = open_store()
    fill(store)
    store.put(message("x" * len(topic), 0, 7), 1000)
    root = crash(store)
    log = next((root / "commitlog").iterdir())
    content = log.read_bytes()
    assert content.count(b"x" * len(topic)) == 1
    log.write_bytes(content.replace(b"x" * len(topic), topic.encode()))
    shutil.rmtree(root / "consumequeue")
    holds(open_store(), COUNT)
    assert len(list((root / "consumequeue").iterdir())) == 1
    assert not (root.parent / "elsewhere").exists()


@pytest.mark.parametrize("lost", [1, 7, 50, 100, 1000])
def test_a_torn_tail_is_cut_and_all_before_it_kept(open_store: OpenStore, lost: int) -> None:
    store = open_store()
    ends = fill(store)
    root = crash(store)
    torn_at = ends[-1] - lost
    tail = root / "commitlog" / f"{torn_at // LOG_FILE_SIZE * LOG_FILE_SIZE:020d}"
    with tail.open("r+b") as file:
        file.seek(torn_at % LOG_FILE_SIZE)
        file.write(bytes(LOG_FILE_SIZE - torn_at % LOG_FILE_SIZE))
    for later in sorted((root / "commitlog").iterdir()):
        if int(later.name) > torn_at:
            later.unlink()
    kept = sum(end <= torn_at for end in ends)
    reopened = open_store()
    holds(reopened, kept)
    number = kept
    assert reopened.put(message("T", number % 4, number), 9999).queue_offset == number // 4
    holds(reopened, kept + 1)


def test_a_damaged_body_ends_the_log_before_it(open_store: OpenStore) -> None:
    store = open_store()
    ends = fill(store)
    root = crash(store)
    path = root / "commitlog" / f"{ends[1000] // LOG_FILE_SIZE * LOG_FILE_SIZE:020d}"
    data = bytearray(path.read_bytes())
    data[ends[1000] % LOG_FILE_SIZE + 88] ^= 1  # the first byte of the next record's body
    path.write_bytes(data)
    holds(open_store(), 1001)


def test_what_was_cut_off_never_comes_back(open_store: OpenStore) -> None:
    """A record after the torn place is whole, but must not be read once new ones have grown up to it."""
    store = open_store()
    ends = fill(store)[:20]
    root = crash(store)
    path = root / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[ends[9] + 88] ^= 1  # record 10 is damaged, 11 and later are whole
    path.write_bytes(data)
    for later in sorted((root / "commitlog").iterdir())[1:]:
        later.unlink()
    reopened = open_store()
    reopened.put(message("T", 10 % 4, 10), 9999)  # as long as the damaged one: it ends where 11 began
    crash(reopened)
    holds(open_store(), 11)


@pytest.mark.parametrize("is_crash", [False, True])
def test_a_queue_with_a_missing_or_cut_file_is_built_again(open_store: OpenStore, is_crash: bool) -> None:
    store = open_store()
    fill(store)
    root = crash(store)
    if not is_crash:
        (root / ABORT_FILE).unlink()
    files = sorted((root / "consumequeue" / "T" / "1").iterdir())
    files[1].unlink()
    (root / "consumequeue" / "T" / "2" / files[0].name).write_bytes(b"short")
    holds(open_store(), COUNT)


def test_without_a_log_the_queues_are_forgotten(open_store: OpenStore) -> None:
    root = crash_filled(open_store)
    shutil.rmtree(root / "commitlog")
    store = open_store()
    assert store.queue("T", 0).max_offset == 0
    assert store.put(message("T", 0, 0), 0).physical_offset == 0


def test_files_of_another_size_are_refused_by_name(open_store: OpenStore, config: StoreConfig) -> None:
    fill(open_store())
    config.mapped_file_size_commit_log = LOG_FILE_SIZE * 2
    with pytest.raises(StorageFailed, match="are configured to have"):
        open_store()
