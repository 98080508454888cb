"""Messages that will share a request. Most have nothing but a body and the tags of the first: of those, only the body
is kept, so that thousands that wait for their answers take little room."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from apogeemq.model.messages import Message


class Gathered:
    """In the order they came. `others` are those that have more to them, by their place."""

    __slots__ = ("bodies", "first", "others", "size", "tags")

    def __init__(self, first: Message) -> None:
        """Decides what the others must be like; it is to be added as they are."""
        self.first = first
        self.tags = first.tags
        self.bodies: list[bytes] = []
        self.others: dict[int, Message] = {}
        self.size = 0

    def add(self, message: Message) -> None:
        body = body_of(message)
        if type(body) is not bytes:
            body = bytes(body)
        if not is_plain(message) or message.waits_for_store != self.first.waits_for_store:
            self.others[len(self.bodies)] = message
        self.add_plain(message, body, message.tags)

    def add_plain(self, message: Message, body: bytes, tags: str) -> None:
        """One that `is_plain` is true of, and that waits for the store as the first does."""
        if tags != self.tags:
            self.others[len(self.bodies)] = message
        self.bodies.append(body)
        self.size += len(body)

    def __len__(self) -> int:
        return len(self.bodies)


def gathered(messages: Iterable[Message]) -> Gathered:
    """Of at least one."""
    together: Gathered | None = None
    for message in messages:
        if together is None:
            together = Gathered(message)
        together.add(message)
    assert together is not None
    return together


def body_of(message: Any) -> Any:
    """Whatever a program gave, bytes or not: a compiled module takes types at their word, and would refuse it."""
    return message.body


def is_plain(message: Message) -> bool:
    """Whether it has a body, perhaps tags, and nothing else."""
    return (
        message.flag == 0
        and message.delay_level == 0
        and not (message.properties or message.keys or message.sharding_key)
    )
