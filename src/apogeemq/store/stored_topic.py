"""What the store has at hand of a topic: every message looks its topic up here once."""

from __future__ import annotations

from apogeemq.protocol.record import topic_part
from apogeemq.store.consume_queue import ConsumeQueue
from apogeemq.store.key_hash import TopicKeys
from apogeemq.store.message_marks import BatchMarks


class StoredTopic:
    """`part` is how records hold its name, `keys` hashes their keys, `queues` are those there are, by id."""

    __slots__ = ("keys", "marks", "part", "queues")

    def __init__(self, name: str) -> None:
        self.part: tuple[int, bytes] = topic_part(name.encode(errors="replace"))
        self.keys = TopicKeys(name)
        self.marks = BatchMarks(self.keys)
        self.queues: dict[int, ConsumeQueue] = {}
