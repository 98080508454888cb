"""A small store: files of a few kilobytes, so that a test sees many of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from apogeemq.filter.tags import java_hash
from apogeemq.store.config import StoreConfig
from apogeemq.store.message_store import MessageStore
from apogeemq.store.recovery import recover
from apogeemq.store.results import NewMessage

LOG_FILE_SIZE = 64 * 1024
QUEUE_FILE_SIZE = 100 * 20
HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"


def tags_code_of(topic: str, properties: dict[str, str], store_time: int) -> int:
    return java_hash(properties["TAGS"]) if "TAGS" in properties else 0


def message(topic: str, queue_id: int, number: int, *, body: bytes | None = None, system_flag: int = 0) -> NewMessage:
    """Number n has the body n, the tag Tn%3 and the key kn."""
    tag = f"T{number % 3}"
    properties = f"KEYS\x01k{number}\x02TAGS\x01{tag}\x02UNIQ_KEY\x01U{number}\x02"
    return NewMessage(
        topic,
        queue_id,
        0,
        system_flag,
        1_700_000_000_000,
        HOST,
        HOST,
        0,
        0,
        b"%d" % number if body is None else body,
        properties.encode(),
        java_hash(tag),
        [f"U{number}", f"k{number}"],
    )


OpenStore = Callable[..., MessageStore]


@pytest.fixture
def config(tmp_path: Path) -> StoreConfig:
    return StoreConfig(
        store_path_root_dir=str(tmp_path / "store"),
        mapped_file_size_commit_log=LOG_FILE_SIZE,
        mapped_file_size_consume_queue=QUEUE_FILE_SIZE,
        max_hash_slot_num=100,
        max_index_num=1000,
    )


@pytest.fixture
def open_store(config: StoreConfig) -> Iterator[OpenStore]:
    """Opens the store as it is on the disk; closes what a test leaves open."""
    opened: list[MessageStore] = []

    def open_it() -> MessageStore:
        store = MessageStore(config, tags_code_of)
        recover(store)
        opened.append(store)
        return store

    yield open_it
    for store in opened:
        store.close()
