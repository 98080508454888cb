"""What is ready to be sent."""

from __future__ import annotations

import msgspec

from apogeemq.protocol.headers.broker import SendMessage


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """Ready to go to any queue; `unique_ids` of a batch are those of its messages."""

    topic: str
    header: SendMessage
    body: bytes
    unique_ids: tuple[str, ...]
    is_batch: bool = False
