"""From a message a program wrote to the header and body a broker gets. Pure. Refuses what no broker would take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from msgspec.structs import astuple

from apogeemq.client.options import ProducerOptions
from apogeemq.client.producing.gathered import Gathered, body_of
from apogeemq.client.producing.outgoing_request import Outgoing as Outgoing
from apogeemq.errors import MessageIllegal
from apogeemq.model import properties as names
from apogeemq.model.flags import COMPRESSED
from apogeemq.model.ids import UniqueIdRange
from apogeemq.model.messages import SYSTEM_PROPERTIES, Message
from apogeemq.model.properties import KEY_SEPARATOR, MAX_SIZE, NAME_END, VALUE_END, encode_properties
from apogeemq.model.topics import NO_SEND_TOPICS, RETRY_PREFIX, topic_problem
from apogeemq.protocol.batch import encode_alike, encode_batch
from apogeemq.protocol.compression import FLAGS, compress
from apogeemq.protocol.headers.broker import SendMessage

_MAX_BATCHED_TEXT = MAX_SIZE // 8  # characters, of which each may take four bytes
_BYTES = (bytes, bytearray, memoryview)
_MAX_KNOWN_TOPICS = 4096
_MIN_FLAG: Final = -(2**31)
_MAX_FLAG: Final = 2**31 - 1
_BEFORE_ID: Final = b"UNIQ_KEY\x01"


def prepared(
    message: Message, group: str, options: ProducerOptions, unique_id: str, now_ms: int, namespace: str = ""
) -> Outgoing:
    """Raises MessageIllegal."""
    check(message, options)
    body, system_flag = body_of(message), 0
    if type(body) is not bytes:
        body = bytes(body)
    if 0 < options.compress_above <= len(body):
        packed = compress(body, options.compression, options.compression_level)
        if len(packed) < len(body):
            body, system_flag = packed, COMPRESSED | FLAGS[options.compression]
    properties = _encoded(message, unique_id, namespace)
    header = _header(message.topic, system_flag, now_ms, message.flag, group, options, properties, is_batch=False)
    return Outgoing(message.topic, header, body, unique_id)


def prepared_batch(
    messages: Gathered,
    group: str,
    options: ProducerOptions,
    unique_ids: UniqueIdRange,
    now_ms: int,
    namespace: str = "",
) -> Outgoing:
    """One request for several messages that `check_batch` has seen. Raises MessageIllegal when they are too many."""
    first = messages.first
    body = _batch_body(messages, unique_ids)
    if len(body) > options.max_message_size:
        raise MessageIllegal(f"a batch of {len(body)} bytes is larger than {options.max_message_size}")
    properties = batch_properties(namespace, waits_for_store=first.waits_for_store)
    return encoded(first.topic, body, properties, group, options, now_ms)


def _batch_body(messages: Gathered, unique_ids: UniqueIdRange) -> bytes:
    """Most messages of a batch differ in their ids and bodies alone."""
    ids, others = unique_ids.encoded(), messages.others
    _encoded(messages.first, ids[0].decode())  # raises what there is to be said of its tags
    after_id = _after_id(messages.tags, waits_for_store=messages.first.waits_for_store)
    if not others:
        return encode_alike(messages.bodies, _BEFORE_ID, ids, after_id)
    entries: list[tuple[int, bytes, bytes]] = []
    for number, body in enumerate(messages.bodies):
        message = others.get(number)
        if message is None:
            entries.append((0, body, _BEFORE_ID + ids[number] + after_id))
        else:
            entries.append((message.flag, body, _encoded(message, ids[number].decode()).encode()))
    return encode_batch(entries)


def _after_id(tags: str, *, waits_for_store: bool) -> bytes:
    """What follows the id in the properties of a message that has nothing else, as `_encoded` writes it."""
    wait = f"\x02WAIT\x01{'true' if waits_for_store else 'false'}\x02"
    return f"{wait}TAGS\x01{tags}\x02".encode() if tags else wait.encode()


def batch_properties(namespace: str = "", *, waits_for_store: bool = True) -> str:
    """No id of the whole: brokers of the 4.9 line put what is said here into every message, over its own."""
    return encode_properties(
        {names.WAIT: "true" if waits_for_store else "false"} | ({names.INSTANCE_ID: namespace} if namespace else {})
    )


def encoded(
    topic: str,
    body: bytes,
    properties: str,
    group: str,
    options: ProducerOptions,
    now_ms: int,
    *,
    system_flag: int = 0,
    is_batch: bool = True,
) -> Outgoing:
    """What is in the form of the wire already. Nothing is checked."""
    header = _header(topic, system_flag, now_ms, 0, group, options, properties, is_batch=is_batch)
    return Outgoing(topic, header, body, is_batch=is_batch)


def _header(
    topic: str,
    system_flag: int,
    now_ms: int,
    flag: int,
    group: str,
    options: ProducerOptions,
    properties: str,
    *,
    is_batch: bool,
) -> SendMessage:
    """For any queue; in the order of the fields, which is quicker than by their names."""
    create_like, queue_nums = options.create_topic_key, options.default_topic_queues
    return SendMessage(
        topic, -1, system_flag, now_ms, flag, group, create_like, queue_nums, properties, 0, False, None, is_batch
    )


def check_batch(messages: Sequence[Message], options: ProducerOptions) -> None:
    """A broker takes all messages of a batch or none, so they must have something in common. Raises MessageIllegal."""
    if not messages:
        raise MessageIllegal("a batch needs at least one message")
    first = messages[0]
    for message in messages:
        check(message, options)
        if message.topic != first.topic:
            raise MessageIllegal(f"a batch is for one topic, not for {first.topic} and {message.topic}")
        if message.delay_level:
            raise MessageIllegal("messages of a batch cannot be delayed")
        if message.topic.startswith(RETRY_PREFIX):
            raise MessageIllegal("a batch cannot go to a retry topic")
        if message.waits_for_store != first.waits_for_store:
            raise MessageIllegal("messages of a batch wait for the store all or none")


def may_be_batched(message: Message, options: ProducerOptions) -> bool:
    """Whether a message can share a request. Large ones go alone: they gain nothing, and could spoil it for others."""
    if message.sharding_key or message.delay_level or message.topic.startswith(RETRY_PREFIX):
        return False
    length = len(message.tags)
    if message.properties or message.keys:
        length += sum(map(len, (*_keys(message), *message.properties, *message.properties.values())))
    return len(body_of(message)) < options.batch_bytes and length < _MAX_BATCHED_TEXT


def may_be_joined(message: Message, options: ProducerOptions) -> bool:
    """As `may_be_batched`, for one whose program asked for nothing: what would be compressed alone stays alone."""
    return may_be_batched(message, options) and not 0 < options.compress_above <= len(body_of(message))


def check(message: Message, options: ProducerOptions) -> None:
    topic, body, tags, keys, properties, sharding_key, delay_level, flag, _ = astuple(message)
    if problem := _topic_problem(topic):
        raise MessageIllegal(problem)
    if type(body) is not bytes and not isinstance(body, _BYTES):
        raise MessageIllegal(f"the body is {type(body).__name__}, not bytes")
    size = len(body)
    if not size:
        raise MessageIllegal("the body is empty")
    if size > options.max_message_size:
        raise MessageIllegal(f"the body has {size} bytes, more than {options.max_message_size}")
    if (delay_level or flag) and (delay_level < 0 or not _MIN_FLAG <= flag <= _MAX_FLAG):
        raise MessageIllegal(f"delay level {delay_level} or flag {flag} is out of range")
    if properties:
        _check_properties(properties)
    if tags:
        _check_text(tags)
    if sharding_key:
        _check_text(sharding_key)
    for key in _keys(message) if keys else ():
        _check_text(key)


@lru_cache(maxsize=_MAX_KNOWN_TOPICS)
def _topic_problem(topic: str) -> str | None:
    return topic_problem(topic) or (f"only brokers send to the topic {topic}" if topic in NO_SEND_TOPICS else None)


def _check_properties(properties: Mapping[Any, Any]) -> None:
    for name, value in properties.items():
        if not all(isinstance(text, str) for text in (name, value)):
            raise MessageIllegal(f"a property is text, not {name!r}={value!r}")
        if name in SYSTEM_PROPERTIES:
            raise MessageIllegal(f"the property {name} is the system's own")
        if not name or not value:
            raise MessageIllegal(f"a property needs a name and a value, not {name!r}={value!r}")
        _check_text(name)
        _check_text(value)


def _check_text(text: str) -> None:
    if NAME_END in text or VALUE_END in text:
        raise MessageIllegal(f"{text!r} holds a character that separates properties (1 or 2)")


def _encoded(message: Message, unique_id: str, namespace: str = "") -> str:
    _, _, tags, keys, properties, sharding_key, delay_level, _, waits_for_store = astuple(message)
    encoded = encode_properties(properties) if properties else ""
    encoded += "UNIQ_KEY\x01" + unique_id + ("\x02WAIT\x01true\x02" if waits_for_store else "\x02WAIT\x01false\x02")
    if tags:
        encoded += "TAGS\x01" + tags + "\x02"
    if keys:
        encoded += f"KEYS\x01{KEY_SEPARATOR.join(_keys(message))}\x02"
    if delay_level:
        encoded += f"DELAY\x01{delay_level}\x02"
    if sharding_key:
        encoded += f"{names.SHARDING_KEY}\x01{sharding_key}\x02"
    if namespace:
        encoded += f"{names.INSTANCE_ID}\x01{namespace}\x02"
    try:
        size = len(encoded) if encoded.isascii() else len(encoded.encode())
    except UnicodeEncodeError as error:
        raise MessageIllegal(f"a property cannot be written as UTF-8: {error.reason}") from None
    if size > MAX_SIZE:
        raise MessageIllegal(f"the properties take {size} bytes, more than {MAX_SIZE}")
    return encoded


def _keys(message: Message) -> Sequence[str]:
    """One key may be given as it is."""
    return (message.keys,) if isinstance(message.keys, str) else message.keys
