"""The hot answers of a broker, from templates. Fields that hold what a client said are checked, never trusted."""

from __future__ import annotations

from binascii import b2a_hex
from collections.abc import Sequence
from struct import Struct, pack, unpack
from typing import Final

import msgspec

from apogeemq.model.ids import offset_id
from apogeemq.protocol import versions
from apogeemq.protocol.codec import encode_reply
from apogeemq.protocol.command import JSON, LANGUAGE, Command

_START: Final = Struct(">II")
_pack_start: Final = _START.pack
_hex: Final = b2a_hex

_TAIL: Final = (
    f'"flag":1,"language":"{LANGUAGE}","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":{versions.CURRENT}}}'
).encode()


class SendReplies:
    """Answers to sends. Region, trace switch and the broker's address in message ids are the same in all of them.

    Java's producer looks into the fields of every answer, so that even a refusal has the `fixed_fields`.
    """

    def __init__(self, region: str, trace_on: bool, store_host: bytes) -> None:
        self.fixed_fields = {"MSG_REGION": region, "TRACE_ON": "true" if trace_on else "false"}
        self._id_prefix = offset_id(store_host, 0)[:-16].encode()
        self._next_id = b"," + self._id_prefix
        fixed = msgspec.json.encode(self.fixed_fields)[1:-1].replace(b"%", b"%%")
        start = b'{"code":0,"extFields":{' + fixed + b',"msgId":"'
        self._template = (
            start + self._id_prefix + b'%016X","queueId":"%d","queueOffset":"%d","transactionId":"%b"},' + _TAIL
        )
        self._batch_template = start + b'%b","queueId":"%d","queueOffset":"%d"},' + _TAIL

    def stored(
        self, request: Command, physical_offset: int, queue_id: int, queue_offset: int, unique_key: str
    ) -> bytes:
        """One message is kept."""
        if request.codec != JSON or not (unique_key.isalnum() and unique_key.isascii()):
            return self.stored_but(request, 0, [physical_offset], queue_id, queue_offset, unique_key)
        header: bytes = self._template % (physical_offset, queue_id, queue_offset, unique_key.encode(), request.opaque)
        length = len(header)
        start: bytes = _pack_start(4 + length, length)
        return start + header

    def stored_batch(self, request: Command, packed_offsets: bytes, queue_id: int, queue_offset: int) -> bytes:
        """All messages of a batch are kept; their physical offsets have eight bytes each."""
        if request.codec != JSON:
            physical_offsets = unpack(f">{len(packed_offsets) // 8}q", packed_offsets)
            return self.stored_but(request, 0, physical_offsets, queue_id, queue_offset, "")
        ids = self._ids(packed_offsets)
        header: bytes = self._batch_template % (ids, queue_id, queue_offset, request.opaque)
        length = len(header)
        start: bytes = _pack_start(4 + length, length)
        return start + header

    def stored_but(
        self,
        request: Command,
        code: int,
        physical_offsets: Sequence[int],
        queue_id: int,
        queue_offset: int,
        unique_key: str,
    ) -> bytes:
        """The messages are in the log, and `code` says what could not be promised; any codec, any key."""
        fields = {
            **self.fixed_fields,
            "msgId": self._ids(pack(f">{len(physical_offsets)}q", *physical_offsets)).decode(),
            "queueId": str(queue_id),
            "queueOffset": str(queue_offset),
        }
        if unique_key:
            fields["transactionId"] = unique_key
        return encode_reply(request, code, None, fields)

    def _ids(self, packed_offsets: bytes) -> bytes:
        """Of messages, one after the other; the offsets of all become digits at once."""
        return self._id_prefix + _hex(packed_offsets, b",", 8).upper().replace(b",", self._next_id)


_PULL_TEMPLATE: Final = (
    b'{"code":%d,"extFields":{"groupSysFlag":"%d","maxOffset":"%d","minOffset":"%d","nextBeginOffset":"%d",'
    b'"suggestWhichBrokerId":"%d","topicSysFlag":"%d"},' + _TAIL.replace(b'"serialize', b'"remark":"%b","serialize')
)


def encode_pull_reply(
    request: Command,
    code: int,
    status: str,
    next_offset: int,
    min_offset: int,
    max_offset: int,
    broker_id: int,
    topic_flag: int,
    group_flag: int,
    records: list[bytes],
) -> bytes:
    """The answer to a pull that was understood; `status` is a name of `GetStatus`."""
    if request.codec != JSON:
        fields = {
            "groupSysFlag": str(group_flag),
            "maxOffset": str(max_offset),
            "minOffset": str(min_offset),
            "nextBeginOffset": str(next_offset),
            "suggestWhichBrokerId": str(broker_id),
            "topicSysFlag": str(topic_flag),
        }
        return encode_reply(request, code, status, fields, b"".join(records))
    header = _PULL_TEMPLATE % (
        code,
        group_flag,
        max_offset,
        min_offset,
        next_offset,
        broker_id,
        topic_flag,
        request.opaque,
        status.encode(),
    )
    length = len(header)
    return b"".join((_pack_start(4 + length + sum(map(len, records)), length), header, *records))
