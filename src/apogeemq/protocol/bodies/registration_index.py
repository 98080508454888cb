"""Read only what changed since a broker's last registration.

Brokers repeat their whole topic table every 30 seconds, and almost always nothing or a single topic is new. The
index remembers a hash of each few kilobytes of the last body; the next body is cut at the same topics, and only
pieces whose hash differs are decoded. Hashes are Python's own, keyed by a secret of this process, so that nobody
can aim for a collision.

What a body must look like is what Apache's brokers send: plain JSON, each topic `"NAME":{…,"topicName":"NAME",…}`
with no braces after the name. Anything else is not indexed, or is found out while reading, and then `read_changes`
returns None and the caller decodes the whole.
"""

from __future__ import annotations

import msgspec

from apogeemq.model.routes import DataVersion
from apogeemq.protocol.bodies.registration import Registration, TopicConfig

_PIECE_SIZE = 4096
_SMALLEST_BODY = 4 * _PIECE_SIZE  # below, decoding the whole costs no more
_TABLE = b'"topicConfigTable":{'
_NAME = b'"topicName":"'
_VERSION = b'"dataVersion":{'

_decode_version = msgspec.json.Decoder(DataVersion).decode
_decode_topics = msgspec.json.Decoder(dict[str, TopicConfig], strict=False).decode


class RegistrationIndex:
    """Of the last body read; `read_changes` moves it on to the body it is given."""

    __slots__ = ("_head", "_marks", "_pieces")

    def __init__(self, head: tuple[int, int], marks: list[bytes], pieces: list[int]) -> None:
        self._head = head  # hashes of what is before and after the data version, up to the table
        self._marks = marks  # where pieces begin: the table, then `"topicName":"NAME"` of some topics and the last
        self._pieces = pieces  # a hash for each mark, of the text from it to the next

    @classmethod
    def of(cls, body: bytes) -> RegistrationIndex | None:
        """None for a body that cannot be read in pieces, or is not worth it."""
        if len(body) < _SMALLEST_BODY or b"\\" in body:
            return None
        marks = [_TABLE]
        last = body.rfind(_NAME)
        position = body.find(_TABLE)
        while 0 <= position < last:
            position = body.find(_NAME, min(position + _PIECE_SIZE, last))
            marks.append(body[position : body.find(b'"', position + len(_NAME)) + 1])
        positions = _positions(body, marks)
        if positions is None or len(marks) < 2:
            return None
        head = _read_head(body, positions[0])
        return None if head is None else cls(head[1], marks, _hashes(body, positions))

    def read_changes(self, body: bytes) -> Registration | None:
        """The data version and the topics that are new or different; None when the whole must be decoded."""
        positions = _positions(body, self._marks)
        if positions is None or b"\\" in body:
            return None
        head = _read_head(body, positions[0])
        if head is None or head[1] != self._head:
            return None
        pieces = _hashes(body, positions)
        if pieces[-1] != self._pieces[-1]:
            return None  # the last piece holds the queue mappings too
        topics: dict[str, TopicConfig] = {}
        if pieces != self._pieces:
            for number in range(len(pieces) - 1):
                if pieces[number] != self._pieces[number]:
                    changed = self._read_piece(body, positions, number)
                    if changed is None:
                        return None
                    topics.update(changed)
            self._pieces = pieces
        return Registration(head[0], topics)

    def _read_piece(self, body: bytes, positions: list[int], number: int) -> dict[str, TopicConfig] | None:
        """The topics that begin or end in a piece: from its own mark's topic to the next mark's, both included."""
        if number == 0:
            start = positions[0] + len(_TABLE)
        else:
            key = self._marks[number][len(_NAME) - 1 :] + b":{"
            start = body.rfind(key, 0, positions[number])
        end = body.find(b"}", positions[number + 1])
        if start < 0 or end < 0:
            return None
        try:
            return _decode_topics(b"{" + body[start : end + 1] + b"}")
        except (msgspec.MsgspecError, RecursionError, ValueError):
            return None


def _positions(body: bytes, marks: list[bytes]) -> list[int] | None:
    """Where each mark is, in their order; None when one is missing."""
    positions = []
    position = 0
    for mark in marks:
        position = body.find(mark, position)
        if position < 0:
            return None
        positions.append(position)
    return positions


def _hashes(body: bytes, positions: list[int]) -> list[int]:
    ends = [*positions[1:], len(body)]
    return [hash(body[start:end]) for start, end in zip(positions, ends, strict=True)]


def _read_head(body: bytes, end: int) -> tuple[DataVersion, tuple[int, int]] | None:
    """The data version, and hashes of what stands before and after it up to the table."""
    start = body.find(_VERSION, 0, end)
    after = body.find(b"}", start, end) + 1
    if start < 0 or after <= 0:
        return None
    try:
        version = _decode_version(body[start + len(_VERSION) - 1 : after])
    except (msgspec.MsgspecError, ValueError):
        return None
    return version, (hash(body[:start]), hash(body[after:end]))
