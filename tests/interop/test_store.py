"""A store folder written by Apache's broker opens in our store, after a clean stop and after `kill -9`; and a cold scan
reads it as it lies there."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from apogeemq.errors import StorageFailed
from apogeemq.filter.tags import java_hash
from apogeemq.model.flags import COMPRESSED
from apogeemq.protocol.record import Record, decode_record, is_intact
from apogeemq.spark.cold.data_source import StoreDataSource
from apogeemq.store.config import StoreConfig
from apogeemq.store.message_store import MessageStore
from apogeemq.store.opening import OpenStore
from apogeemq.store.recovery import Recovered, recover
from apogeemq.store.results import GetStatus
from tests.peers import apache, ours
from tests.peers.netns import NetNamespace
from tests.peers.process import PeerError, wait_for

TOPICS = 5
MESSAGES = 500
LOG_FILE_SIZE = 1 << 20


def open_copy(root: Path) -> tuple[MessageStore, Recovered]:
    config = StoreConfig(store_path_root_dir=str(root), mapped_file_size_commit_log=LOG_FILE_SIZE)
    store = MessageStore(config, lambda topic, properties, _: java_hash(properties.get("TAGS", "")))
    return store, recover(store)


def records_of(store: MessageStore, topic: str) -> list[Record]:
    found = []
    for _, queue_id in sorted(key for key in store.queues if key[0] == topic):
        offset = store.queue(topic, queue_id).min_offset
        while (got := store.get(topic, queue_id, offset, 32, 256 * 1024)).status is GetStatus.FOUND:
            position = 0
            while position < len(got.records):
                found.append(decode_record(got.records, position))
                position += found[-1].size
            offset = got.next_offset
    return found


def body_of(record: Record) -> bytes:
    return zlib.decompress(record.body) if record.system_flag & COMPRESSED else record.body


def number_of(record: Record) -> int:
    return int(body_of(record).partition(b"-")[0])


def scanned(root: Path) -> dict[str, list[tuple[int, int, bytes]]]:
    """By topic: queue, offset and body of every message, as Spark's executors read the folder."""
    source = StoreDataSource({"path": str(root), "maxBytesPerPartition": "200000"})
    reader = source.reader(source.schema())
    found: dict[str, list[tuple[int, int, bytes]]] = {}
    for partition in reader.partitions():
        for batch in reader.read(partition):
            assert isinstance(batch, pa.RecordBatch)
            for row in batch.to_pylist():
                found.setdefault(row["topic"], []).append((row["queue_id"], row["queue_offset"], row["body"]))
    return found


@pytest.mark.timeout(300)  # a Java broker is slow to start and to stop on a busy machine
@pytest.mark.parametrize("version", apache.VERSIONS)
@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_every_message_of_apaches_store_is_found(
    make_netns: Callable[[], NetNamespace], tmp_path: Path, version: str, is_killed: bool
) -> None:
    netns = make_netns()
    with (
        ours.NameServer(work_dir=tmp_path / "namesrv", netns=netns) as name_server,
        apache.Broker(
            version,
            name_server.address,
            work_dir=tmp_path / "broker",
            netns=netns,
            properties={"mappedFileSizeCommitLog": LOG_FILE_SIZE},
        ) as broker,
    ):
        # A busy 5.5.0 says that it is up ten seconds before it is registered, and the program gives up without a route.
        journal = tmp_path / "namesrv" / "data" / "journal"
        wait_for(lambda: any("TBW102" in file.read_text() for file in journal.glob("*")), "the broker is registered")
        with apache.run_program(
            version,
            "Fill.java",
            name_server.address,
            str(TOPICS),
            str(MESSAGES),
            work_dir=tmp_path / "fill",
            netns=netns,
        ) as fill:
            fill.wait_for_output(f"^sent {MESSAGES}", timeout_s=120)
        broker.kill() if is_killed else broker.stop()

    rows = scanned(tmp_path / "broker" / "store")  # before recovery brings anything into order
    store, result = open_copy(tmp_path / "broker" / "store")
    assert result.was_clean is not is_killed
    assert rows.keys() == {f"fill-{topic}" for topic in range(TOPICS)}
    for topic in range(TOPICS):
        records = records_of(store, f"fill-{topic}")
        assert sorted(map(number_of, records)) == list(range(topic, MESSAGES, TOPICS))
        assert all(map(is_intact, records))
        stored = [(record.queue_id, record.queue_offset, body_of(record)) for record in records]
        assert sorted(rows[f"fill-{topic}"]) == sorted(stored)
    for number in (0, 1, 77, MESSAGES - 1):
        found = store.find_by_key(f"fill-{number % TOPICS}", f"k{number}", 0, 2**62, 10)
        assert number in map(number_of, found)
    store.close()


def test_a_folder_is_never_open_in_two_brokers(make_netns: Callable[[], NetNamespace], tmp_path: Path) -> None:
    netns, root = make_netns(), tmp_path / "broker" / "store"
    config = StoreConfig(store_path_root_dir=str(root), mapped_file_size_commit_log=LOG_FILE_SIZE)

    def open_ours() -> OpenStore:
        return OpenStore.open(config, lambda topic, properties, _: 0, lambda offset: None, lambda error: None)

    with ours.NameServer(work_dir=tmp_path / "namesrv", netns=netns) as name_server:
        broker = apache.Broker(
            apache.VERSIONS[0],
            name_server.address,
            work_dir=tmp_path / "broker",
            netns=netns,
            properties={"mappedFileSizeCommitLog": LOG_FILE_SIZE},
        )
        with broker:
            with pytest.raises(StorageFailed, match="in use by another process"):
                open_ours()
            broker.stop()
            opened = open_ours()
            assert opened.recovered.was_clean
            with pytest.raises(PeerError, match="Lock failed, MQ already started"):
                broker.start()
            opened.close()
            broker.start()
