"""What one pull brought. Pure."""

from __future__ import annotations

from enum import Enum

import msgspec

from apogeemq.model.received import ReceivedMessage
from apogeemq.protocol.codes import ResponseCode


class PullStatus(Enum):
    """The names are Apache's."""

    FOUND = ResponseCode.SUCCESS
    NO_NEW_MSG = ResponseCode.PULL_NOT_FOUND
    # There are messages, but none with these tags among those that were looked at.
    NO_MATCHED_MSG = ResponseCode.PULL_RETRY_IMMEDIATELY
    # The queue has no such offset; `next_offset` is the nearest it has.
    OFFSET_ILLEGAL = ResponseCode.PULL_OFFSET_MOVED


class PullResult(msgspec.Struct, frozen=True):
    """Messages and where to go on: at `next_offset`, whether there were any or not."""

    status: PullStatus
    messages: list[ReceivedMessage]
    next_offset: int
    min_offset: int
    max_offset: int


class RawPullResult(msgspec.Struct, frozen=True):
    """The same with the records as the broker sent them, one after the other, for `apogeemq.protocol.record`.

    A broker compares hashes of tags: records with another tag may be among them.
    """

    status: PullStatus
    records: bytes
    next_offset: int
    min_offset: int
    max_offset: int
