"""The body of REGISTER_BROKER in its three forms: JSON, zlib, and the one from before 3.0.11."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from struct import Struct, error
from typing import Any

import msgspec

from apogeemq.errors import ProtocolError
from apogeemq.model import topics as model
from apogeemq.model.routes import DataVersion, QueueMapping
from apogeemq.model.topics import PERM_READ_WRITE
from apogeemq.protocol import javajson, versions
from apogeemq.protocol.command import Int32

MAX_INFLATED_SIZE = 64 * 1024 * 1024  # about 500,000 topics; a zip bomb stops here
MAX_INFLATED_ENTRIES = 500_000  # topics, or queue mappings: a second's work, which no few compressed bytes exceed

_INT32 = Struct(">i")
_ZLIB_FIRST_BYTE = 0x78
_NO_VERSION = DataVersion()
_DEFAULT_QUEUES = 16  # Java's TopicConfig, for fields a broker leaves out


class TopicConfig(msgspec.Struct, gc=False):
    """One entry of a broker's topic table, as far as a name server cares."""

    topicName: str | None = None
    readQueueNums: Int32 = _DEFAULT_QUEUES
    writeQueueNums: Int32 = _DEFAULT_QUEUES
    perm: Int32 = PERM_READ_WRITE
    topicSysFlag: Int32 = 0


class TopicTable(msgspec.Struct):
    """Java's TopicConfigSerializeWrapper, with the queue mappings 5.x adds."""

    topicConfigTable: dict[str, TopicConfig] | None = None
    dataVersion: DataVersion | None = None
    topicQueueMappingInfoMap: dict[str, QueueMapping] | None = None


class RegisterBody(msgspec.Struct):
    topicConfigSerializeWrapper: TopicTable | None = None
    filterServerList: list[str] | None = None


class Registration(msgspec.Struct):
    """What a broker says of itself, whatever form it came in. No filter servers (None) changes nothing."""

    data_version: DataVersion = DataVersion()
    topics: dict[str, TopicConfig] = {}
    queue_mappings: dict[str, QueueMapping] = {}
    filter_servers: list[str] | None = None


_decode_body = msgspec.json.Decoder(RegisterBody, strict=False).decode


def decode_registration(body: bytes, version: int, compressed: bool) -> Registration:
    """Raises ProtocolError when the body is none of the three forms.

    Brokers of 5.x with compressedRegister=true say compressed=false and send zlib all the same, so the first
    byte decides.
    """
    if not body:
        return Registration()
    if version < versions.V3_0_11:
        return _from_table(javajson.loads(body, TopicTable))
    if compressed or body[0] == _ZLIB_FIRST_BYTE:
        return _Inflated(_inflate(body)).registration(has_mappings=version >= versions.V5_0_0)
    try:
        decoded = _decode_body(body)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        decoded = javajson.loads(body, RegisterBody)
    table = decoded.topicConfigSerializeWrapper
    registration = _from_table(table) if table is not None else Registration()
    registration.filter_servers = decoded.filterServerList
    return registration


def _from_table(table: TopicTable) -> Registration:
    return Registration(
        table.dataVersion or DataVersion(), table.topicConfigTable or {}, table.topicQueueMappingInfoMap or {}
    )


def _inflate(body: bytes) -> bytes:
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(body, MAX_INFLATED_SIZE)
    except zlib.error as problem:
        raise ProtocolError(f"compressed body: {problem}") from None
    if inflater.unconsumed_tail:
        raise ProtocolError(f"compressed body grows beyond {MAX_INFLATED_SIZE} bytes")
    if not inflater.eof:
        raise ProtocolError("compressed body is cut off")
    return data


class _Inflated:
    """The inflated form: data version, topics as lines of text, filter servers, queue mappings."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def registration(self, has_mappings: bool) -> Registration:
        data_version = javajson.loads(self._block(), DataVersion)
        topics: dict[str, TopicConfig] = {}
        for _ in range(self._count()):
            topic = _topic_from_text(self._block())
            topics[topic.topicName or ""] = topic
        filter_servers = javajson.loads(self._block(), list[str])
        mappings: dict[str, QueueMapping] = {}
        if has_mappings:
            for _ in range(self._count()):
                mapping = javajson.loads(self._block(), QueueMapping)
                mappings[mapping.topic or ""] = mapping
        return Registration(data_version, topics, mappings, filter_servers)

    def _number(self) -> int:
        try:
            number: int = _INT32.unpack_from(self._data, self._position)[0]
        except error:
            raise ProtocolError("compressed body ends too soon") from None
        self._position += _INT32.size
        if number < 0:
            raise ProtocolError(f"compressed body holds a negative size, {number}")
        return number

    def _count(self) -> int:
        number = self._number()
        if number > MAX_INFLATED_ENTRIES:
            raise ProtocolError(f"compressed body holds {number} entries, more than {MAX_INFLATED_ENTRIES}")
        return number

    def _block(self) -> bytes:
        end = self._number() + self._position
        if end > len(self._data):
            raise ProtocolError("compressed body ends too soon")
        block = self._data[self._position : end]
        self._position = end
        return block


def _topic_from_text(text: bytes) -> TopicConfig:
    """`name read write perm filterType [attributes]`; the system flag is not carried."""
    parts = text.split(b" ", 5)
    try:
        name, read, write, perm = parts[0].decode(), *map(int, parts[1:4])
        return msgspec.convert(
            {"topicName": name, "readQueueNums": read, "writeQueueNums": write, "perm": perm}, TopicConfig
        )
    except (ValueError, msgspec.MsgspecError) as problem:
        raise ProtocolError(f"compressed body: topic {text[:100]!r}: {problem}") from None


def encode_registration(registration: Registration) -> bytes:
    """The JSON form, as a broker of 5.x sends it."""
    topics: dict[str, Any] = {
        name: {
            "attributes": {},
            "order": False,
            "perm": topic.perm,
            "readQueueNums": topic.readQueueNums,
            "topicFilterType": "SINGLE_TAG",
            "topicName": topic.topicName or name,
            "topicSysFlag": topic.topicSysFlag,
            "writeQueueNums": topic.writeQueueNums,
        }
        for name, topic in registration.topics.items()
    }
    return msgspec.json.encode(
        {
            "filterServerList": registration.filter_servers or [],
            "topicConfigSerializeWrapper": {
                "dataVersion": registration.data_version,
                "topicConfigTable": topics,
                "topicQueueMappingInfoMap": registration.queue_mappings,
            },
        }
    )


def encode_topic_table(
    topics: Mapping[str, model.TopicConfig], data_version: DataVersion, mapping_version: DataVersion = _NO_VERSION
) -> bytes:
    """The JSON form of a broker's own table, as a broker of 5.x sends it."""
    return msgspec.json.encode(
        {
            "filterServerList": (),
            "topicConfigSerializeWrapper": {
                "dataVersion": data_version,
                "mappingDataVersion": mapping_version,
                "topicConfigTable": topics,
                "topicQueueMappingDetailMap": {},
                "topicQueueMappingInfoMap": {},
            },
        }
    )


def pack_topic_table(topics: Mapping[str, model.TopicConfig], data_version: DataVersion) -> bytes:
    """What the compressed form holds; `zlib.compress` of it is the body. System flags and order are not carried."""
    lines = [_topic_to_text(topic) for topic in topics.values()]
    blocks = [_sized(msgspec.json.encode(data_version)), _INT32.pack(len(lines)), *map(_sized, lines), _sized(b"[]")]
    return b"".join((*blocks, _INT32.pack(0)))  # no queue mappings; name servers before 5.0 do not read this far


def _topic_to_text(topic: model.TopicConfig) -> bytes:
    """Attributes only where there are any: name servers before 5.0 take no sixth part."""
    parts = (topic.topic_name, topic.read_queue_nums, topic.write_queue_nums, topic.perm, topic.topic_filter_type)
    text = " ".join(map(str, parts)).encode()
    return text + b" " + msgspec.json.encode(topic.attributes) if topic.attributes else text


def _sized(block: bytes) -> bytes:
    return _INT32.pack(len(block)) + block
