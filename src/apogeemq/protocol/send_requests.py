"""The hot request of a producer, from a template for each queue: JSON with the same fields as any other request."""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final

import msgspec
from msgspec.structs import astuple

from apogeemq.protocol import versions
from apogeemq.protocol.codes import RequestCode
from apogeemq.protocol.command import FLAG_ONE_WAY, LANGUAGE
from apogeemq.protocol.headers.broker import SendMessage

_pack_start = Struct(">II").pack
_json_text = msgspec.json.Encoder().encode
_MAX_HEADER_LENGTH: Final = 0xFFFFFF
_MAX_TEMPLATES: Final = 16_384  # one for each queue; some 400 bytes each


def send_code(header: SendMessage) -> RequestCode:
    return RequestCode.SEND_BATCH_MESSAGE if header.is_batch else RequestCode.SEND_MESSAGE_V2


def encode_send(header: SendMessage, body: bytes, opaque: int) -> bytes:
    """A whole frame. The header is one of a producer's own message: no unit, never consumed before."""
    return _encoded(header, body, opaque, 0)


def encode_one_way_send(header: SendMessage, body: bytes, opaque: int) -> bytes:
    return _encoded(header, body, opaque, FLAG_ONE_WAY)


def _encoded(header: SendMessage, body: bytes, opaque: int, flag: int) -> bytes:
    # All fields at once: cheaper than one after the other.
    fields = astuple(header)
    template = _template(fields[0], fields[1], fields[2], fields[5], fields[6], fields[7], fields[12], fields[13], flag)
    text: bytes = template % (fields[3], fields[4], _json_text(fields[8] or ""), opaque)
    length = len(text)
    if length > _MAX_HEADER_LENGTH:
        raise ValueError(f"a header of {length} bytes does not fit a frame")
    return b"".join((_pack_start(4 + length + len(body), length), text, body))


@lru_cache(maxsize=_MAX_TEMPLATES)
def _template(
    topic: str,
    queue_id: int,
    system_flag: int,
    group: str,
    default_topic: str,
    default_queue_nums: int,
    is_batch: bool,
    broker_name: str | None,
    flag: int,
) -> bytes:
    code = RequestCode.SEND_BATCH_MESSAGE if is_batch else RequestCode.SEND_MESSAGE_V2
    texts = {"a": group, "b": topic, "c": default_topic, "d": str(default_queue_nums)}
    broker = b"" if broker_name is None else b',"n":' + _json_text(broker_name).replace(b"%", b"%%")
    return (
        b'{"code":%d,"extFields":{' % code
        + _json_text(texts)[1:-1].replace(b"%", b"%%")
        + b',"e":"%d","f":"%d","g":"%%d","h":"%%d","i":%%b,"j":"0","k":"false","m":"' % (queue_id, system_flag)
        + (b"true" if is_batch else b"false")
        + b'"%b},"flag":%d,"language":"%b","opaque":%%d,' % (broker, flag, LANGUAGE.encode())
        + b'"serializeTypeCurrentRPC":"JSON","version":%d}' % versions.CURRENT
    )
