"""Every structure of the store's files, in Apache's layout. All numbers are big-endian.

The record of a message is `protocol/record.py`: it is the same on the wire.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

# Consume queue: one entry per message of a queue.
QUEUE_ENTRY_FIELDS: Final = "qiq"  # physical offset, record size, tags code
QUEUE_ENTRY: Final = Struct(">" + QUEUE_ENTRY_FIELDS)
QUEUE_ENTRY_SIZE: Final = 20
QUEUE_FILE_SIZE: Final = 300_000 * QUEUE_ENTRY_SIZE
# An entry before the first real one, in a queue that does not begin at 0.
FILLER_SIZE: Final = 0x7FFFFFFF
FILLER_ENTRY: Final = QUEUE_ENTRY.pack(0, FILLER_SIZE, 0)

# Key index: a header, slots that hold the newest item of their hash, items chained to older ones.
INDEX_HEADER: Final = Struct(">qqqqii")  # begin time, end time, begin offset, end offset, used slots, next item
INDEX_HEADER_SIZE: Final = 40
INDEX_SLOT: Final = Struct(">i")
INDEX_SLOT_COUNT: Final = 5_000_000
INDEX_ITEM: Final = Struct(">iqii")  # key hash, physical offset, seconds since begin time, previous item
INDEX_ITEM_SIZE: Final = 20
INDEX_ITEM_COUNT: Final = 20_000_000
# On the way there, of a message's key: its hash, and the message's physical offset.
HASHED_KEY: Final = Struct(">iq")
HASHED_KEY_SIZE: Final = 12
INDEX_ITEMS_AT: Final = INDEX_HEADER_SIZE + INDEX_SLOT_COUNT * INDEX_SLOT.size
INDEX_FILE_SIZE: Final = INDEX_ITEMS_AT + INDEX_ITEM_COUNT * INDEX_ITEM_SIZE

CHECKPOINT: Final = Struct(">qqqqq")  # log, queue and index times; master flushed offset, confirmed offset
CHECKPOINT_SIZE: Final = 4096
# Ours, in the same sector of the page, where Apache writes nothing: mark, the log's offset up to which queues and index
# are complete and durable, and the two times above, so that it counts only while they are what we wrote with it.
CHECKPOINT_OURS: Final = Struct(">8sqqq")
CHECKPOINT_OURS_AT: Final = 256
CHECKPOINT_MARK: Final = b"APOGEEMQ"

assert QUEUE_ENTRY.size == QUEUE_ENTRY_SIZE
assert INDEX_HEADER.size == INDEX_HEADER_SIZE
assert INDEX_ITEM.size == INDEX_ITEM_SIZE
assert HASHED_KEY.size == HASHED_KEY_SIZE
assert INDEX_FILE_SIZE == 420_000_040


def file_name(start: int) -> str:
    """Of a commit log or consume queue file: the offset of its first byte."""
    return f"{start:020d}"


# A record's topic and properties have no checksum. Zeros in a row or at their end may be bytes that were never written,
# so that no message is taken in that has them.
_UNWRITTEN_ROW: Final = bytes(16)


def could_be_unwritten(text: bytes) -> bool:
    return text.endswith(b"\0") or _UNWRITTEN_ROW in text
