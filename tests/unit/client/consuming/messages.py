"""Messages as a consumer gets them, and a reader that is not running."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

from apogeemq.client.consuming.incoming import ConsumedMessage, message_of
from apogeemq.client.consuming.offset_store import LocalOffsets
from apogeemq.client.consuming.queue_reader import QueueReader, Reading
from apogeemq.client.instance import ClientInstance
from apogeemq.client.options import ClientOptions, ConsumerOptions
from apogeemq.model.properties import encode_properties
from apogeemq.model.queues import MessageQueue
from apogeemq.protocol.record import CRC_MASK, decode_record, record_size, topic_part
from apogeemq.protocol.record_writing import encode_record

QUEUE = MessageQueue("broker-a", 2, "T")
HOST = bytes((10, 0, 0, 1, 0, 0, 0x2A, 0x9F))


def record(
    offset: int = 0,
    body: bytes = b"body",
    *,
    topic: str = "T",
    system_flag: int = 0,
    reconsume_times: int = 0,
    **properties: str,
) -> bytes:
    encoded = encode_properties(properties).encode()
    part = topic_part(topic.encode())
    return encode_record(
        record_size(system_flag, len(part[1]), len(body), len(encoded)),
        part,
        queue_id=2,
        flag=7,
        queue_offset=offset,
        physical_offset=1000 + offset,
        system_flag=system_flag,
        born_time=11,
        born_host=HOST,
        store_time=22,
        store_host=HOST,
        reconsume_times=reconsume_times,
        prepared_offset=0,
        body_crc=crc32(body) & CRC_MASK,
        body=body,
        properties=encoded,
    )


def message(offset: int = 0, body: bytes = b"body", queue: MessageQueue = QUEUE) -> ConsumedMessage:
    return message_of(decode_record(record(offset, body)), queue)


def idle_reader(
    folder: Path, queue: MessageQueue = QUEUE, *, is_ordered: bool = False, options: ConsumerOptions | None = None
) -> QueueReader:
    """Its offsets are in the folder; it pulls nothing."""
    instance = ClientInstance("127.0.0.1:1", ClientOptions())
    offsets = LocalOffsets(folder, "client", "G")
    reading = Reading(
        instance,
        "G",
        options or ConsumerOptions(),
        offsets,
        lambda topic: None,
        lambda reader, messages: None,
        is_ordered,
        "",
    )
    return QueueReader(reading, queue, 0)
