"""Store folders of a few small files, filled by our store and read by the scan."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from apogeemq.filter.tags import java_hash
from apogeemq.spark.cold.data_source import StoreDataSource, StoreReader
from apogeemq.store.config import StoreConfig
from apogeemq.store.message_store import MessageStore
from apogeemq.store.recovery import recover
from apogeemq.store.results import NewMessage

LOG_FILE_SIZE = 64 * 1024
HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"
BORN_MS = 1_700_000_000_000
STORED_MS = 1_700_000_100_000

Put = Callable[..., None]


class Filled:
    """A folder that is being filled. Message n of a topic has the body n, the key kn and the tag Tn%3, and is stored n
    milliseconds after the first."""

    def __init__(self, root: Path, *, has_usual_index: bool = False) -> None:
        self.root = root
        config = StoreConfig(
            store_path_root_dir=str(root),
            mapped_file_size_commit_log=LOG_FILE_SIZE,
            mapped_file_size_consume_queue=20_000,
        )
        if not has_usual_index:
            config.max_hash_slot_num, config.max_index_num = 100, 1000
        self.store = MessageStore(config, lambda topic, properties, time: java_hash(properties.get("TAGS", "")))
        recover(self.store)

    def put(
        self,
        topic: str,
        number: int,
        *,
        queue_id: int = 0,
        body: bytes | None = None,
        system_flag: int = 0,
        properties: bytes | None = None,
        host: bytes = HOST,
        time_ms: int | None = None,
    ) -> None:
        text = f"KEYS\x01k{number}\x02TAGS\x01T{number % 3}\x02UNIQ_KEY\x01U{number}\x02".encode()
        message = NewMessage(
            topic,
            queue_id,
            0,
            system_flag,
            BORN_MS,
            host,
            HOST,
            0,
            0,
            b"%d" % number if body is None else body,
            text if properties is None else properties,
            0,
            [f"U{number}", f"k{number}"],
        )
        self.store.put(message, STORED_MS + number if time_ms is None else time_ms)

    def fill(self, topic: str, count: int, *, size: int = 0) -> None:
        for number in range(count):
            self.put(topic, number, queue_id=number % 4, body=b"%d" % number + b"." * size)

    def log_file(self, number: int = 0) -> Path:
        return sorted((self.root / "commitlog").iterdir())[number]

    def close(self) -> None:
        self.store.close()


def reader_of(root: Path | str, **options: Any) -> StoreReader:
    source = StoreDataSource({"path": str(root), **{name: str(value) for name, value in options.items()}})
    reader = source.reader(source.schema())
    assert isinstance(reader, StoreReader)
    return reader


def scan_with(reader: StoreReader) -> pa.Table:
    """Every partition read by a copy of the reader, as executors have it."""
    batches = []
    for partition in reader.partitions():
        executor, travelled = pickle.loads(pickle.dumps((reader, partition)))
        batches += executor.read(travelled)
    return pa.Table.from_batches(batches) if batches else pa.table({})


def scan(root: Path | str, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = scan_with(reader_of(root, **options)).to_pylist()
    return rows


def numbers(rows: list[dict[str, Any]]) -> list[int]:
    return [int(row["body"].split(b".")[0]) for row in rows]


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Filled]:
    folder = Filled(tmp_path / "store")
    yield folder
    folder.close()
