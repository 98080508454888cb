"""What is ready to be sent."""

from __future__ import annotations

import msgspec

from apogeemq.protocol.headers.broker import SendMessage


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """Ready to go to any queue. A batch has no id of its own; its messages have."""

    topic: str
    header: SendMessage
    body: bytes
    unique_id: str = ""
    is_batch: bool = False
