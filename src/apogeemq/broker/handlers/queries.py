"""Questions for messages: by key, by unique key, by where they are."""

from __future__ import annotations

from typing import Final

from apogeemq.broker.state import BrokerState
from apogeemq.errors import RequestRefused
from apogeemq.protocol.codec import encode_ok, encode_reply
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers import broker as headers
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher

_UNIQUE_KEY_MOST: Final = 32  # what a question for a unique key finds at most, whatever it asks for
_MAX_ANSWER_SIZE: Final = 12 * 1024 * 1024  # clients take frames of 16 MiB


class QueryHandlers:
    def __init__(self, state: BrokerState) -> None:
        self._state = state

    def install(self, dispatcher: Dispatcher) -> None:
        dispatcher.register(RequestCode.QUERY_MESSAGE, self.query_message)
        dispatcher.register(RequestCode.VIEW_MESSAGE_BY_ID, self.view_message)

    def query_message(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_query_message(command)
        store = self._state.store
        most = _UNIQUE_KEY_MOST if header.is_unique_key else header.maxNum
        if most < 0:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"maxNum cannot be {most}")
        most = min(most, store.config.max_msgs_num_batch)
        found: list[bytes] = []
        size = 0
        range_ms = (header.beginTimestamp, header.endTimestamp)
        records = store.find_by_key(header.topic, header.key, *range_ms, most) if most else []
        for record in sorted(records, key=lambda record: record.physical_offset):
            size += record.size
            if found and size > _MAX_ANSWER_SIZE:
                break
            found.append(store.log.read(record.physical_offset, record.size))
        if not found:
            remark = "can not find message, maybe time range not correct"
            return encode_reply(command, ResponseCode.QUERY_NOT_FOUND, remark, _index_fields(0, 0))
        fields = _index_fields(max(store.index.end_offset, 0), store.index.end_time)
        return encode_reply(command, fields=fields, body=b"".join(found))

    def view_message(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_view_message(command)
        record = self._state.store.log.record_at(header.offset)
        if record is None:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {header.offset}")
        return encode_ok(command, self._state.store.log.read(record.physical_offset, record.size))


def _index_fields(end_offset: int, end_time: int) -> dict[str, str]:
    return {"indexLastUpdatePhyoffset": str(end_offset), "indexLastUpdateTimestamp": str(end_time)}
