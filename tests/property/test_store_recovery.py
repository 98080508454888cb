"""Whatever was stored and wherever the last write tore, recovery keeps every record before that, and only those."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from apogeemq.protocol.record import decode_record
from apogeemq.store.config import StoreConfig
from apogeemq.store.message_store import MessageStore
from apogeemq.store.recovery import ABORT_FILE, recover
from apogeemq.store.results import GetStatus, NewMessage, Put
from apogeemq.testing.faulty_files import tear_from

LOG_FILE_SIZE = 8 * 1024
IPV4, IPV6 = bytes(range(8)), bytes(range(20))
LONG_TOPIC = "%RETRY%" + "g" * 200


class Message(NamedTuple):
    topic: str
    queue_id: int
    body: bytes
    properties: bytes
    is_ipv6: bool

    def to_store(self) -> NewMessage:
        host, flags = (IPV6, 0x30) if self.is_ipv6 else (IPV4, 0)
        return NewMessage(self.topic, self.queue_id, 0, flags, 1, host, host, 0, 0, self.body, self.properties, 0, [])


property_text = st.text(st.characters(codec="utf-8", exclude_characters="\0\1\2"), max_size=30)
messages = st.builds(
    Message,
    st.sampled_from(["T", "topic-2", LONG_TOPIC]),
    st.integers(0, 2),
    st.binary(max_size=1000),
    st.dictionaries(property_text, property_text, max_size=4).map(
        lambda pairs: "".join(f"{name}\1{value}\2" for name, value in pairs.items()).encode()
    ),
    st.booleans(),
)


def opened(root: Path) -> MessageStore:
    store = MessageStore(
        StoreConfig(
            store_path_root_dir=str(root),
            mapped_file_size_commit_log=LOG_FILE_SIZE,
            mapped_file_size_consume_queue=200,
            max_hash_slot_num=10,
            max_index_num=100,
        ),
        lambda topic, properties, time: 0,
    )
    recover(store)
    return store


def all_bodies(store: MessageStore) -> dict[tuple[str, int], list[bytes]]:
    found: dict[tuple[str, int], list[bytes]] = {}
    for (topic, queue_id), queue in store.queues.items():
        for offset in range(queue.max_offset):
            got = store.get(topic, queue_id, offset, 1, 1 << 20)
            assert got.status is GetStatus.FOUND
            found.setdefault((topic, queue_id), []).append(decode_record(got.records).body)
    return found


def expected(sent: list[Message]) -> dict[tuple[str, int], list[bytes]]:
    queues: dict[tuple[str, int], list[bytes]] = {}
    for message in sent:
        queues.setdefault((message.topic, message.queue_id), []).append(message.body)
    return queues


def tear(root: Path, position: int) -> None:
    for path in sorted((root / "commitlog").iterdir()):
        if int(path.name) > position:
            path.unlink()
    start = position - position % LOG_FILE_SIZE
    path = root / "commitlog" / f"{start:020d}"
    if path.exists():
        tear_from(path, position - start)


@settings(max_examples=300 if os.environ.get("APOGEE_SOAK") else 60, deadline=None)
@given(st.lists(messages, min_size=1, max_size=40), st.data())
def test_all_before_a_torn_tail_is_kept(sent: list[Message], data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        root = Path(folder)
        store = opened(root)
        puts: list[Put] = [store.put(message.to_store(), 1000 + number) for number, message in enumerate(sent)]
        store.close()
        (root / ABORT_FILE).touch()
        torn_at = data.draw(st.integers(0, puts[-1].physical_offset + puts[-1].size), label="torn at")
        tear(root, torn_at)

        whole = [message for message, put in zip(sent, puts, strict=True) if put.physical_offset + put.size <= torn_at]
        store = opened(root)
        found = all_bodies(store)
        # A last record that ended in zeros is whole without them.
        more = whole + sent[len(whole) : len(whole) + 1]
        assert found in (expected(whole), expected(more))
        kept = whole if found == expected(whole) else more
        store.put(sent[0].to_store(), 5000)
        assert all_bodies(store) == expected([*kept, sent[0]])
        store.close()
