"""The hot request of a consumer, from a template for each queue: JSON with the same fields as any other request."""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final

import msgspec

from apogeemq.protocol import versions
from apogeemq.protocol.codes import RequestCode
from apogeemq.protocol.command import LANGUAGE
from apogeemq.protocol.fields import write_fields
from apogeemq.protocol.headers import broker as headers

_pack_start = Struct(">II").pack
_json_text = msgspec.json.Encoder().encode
_MAX_HEADER_LENGTH: Final = 0xFFFFFF
_MAX_TEMPLATES: Final = 4096  # some 400 bytes each
# What differs between two pulls of a queue, as the template has it.
_OFFSET_MARK, _COMMIT_MARK, _FLAG_MARK = -(2**63), -(2**63) + 1, -(2**31)


def pull_code(header: headers.PullMessage) -> RequestCode:
    is_lite = header.system_flag & headers.PULL_LITE
    return RequestCode.LITE_PULL_MESSAGE if is_lite else RequestCode.PULL_MESSAGE


def encode_pull(header: headers.PullMessage, opaque: int) -> bytes:
    """A whole frame."""
    template = _template(
        pull_code(header),
        header.consumer_group,
        header.topic,
        header.queue_id,
        header.max_messages,
        header.suspend_ms,
        header.subscription_version,
        header.subscription,
        header.expression_type,
        header.max_bytes,
        header.broker_name,
    )
    text: bytes = template % (header.queue_offset, header.system_flag, header.commit_offset, opaque)
    length = len(text)
    if length > _MAX_HEADER_LENGTH:
        raise ValueError(f"a header of {length} bytes does not fit a frame")
    start: bytes = _pack_start(4 + length, length)
    return start + text


@lru_cache(maxsize=_MAX_TEMPLATES)
def _template(
    code: RequestCode,
    group: str,
    topic: str,
    queue_id: int,
    max_messages: int,
    suspend_ms: int,
    subscription_version: int,
    subscription: str | None,
    expression_type: str | None,
    max_bytes: int | None,
    broker_name: str | None,
) -> bytes:
    header = headers.PullMessage(
        *(group, topic, queue_id, _OFFSET_MARK, max_messages, _FLAG_MARK, _COMMIT_MARK, suspend_ms),
        *(subscription_version, subscription, expression_type, max_bytes, broker_name),
    )
    fields: bytes = _json_text(write_fields(header)).replace(b"%", b"%%")
    for name, mark in (
        (headers.PULL_OFFSET, _OFFSET_MARK),
        ("sysFlag", _FLAG_MARK),
        ("commitOffset", _COMMIT_MARK),
    ):
        fields = fields.replace(b'"%b":"%d"' % (name.encode(), mark), b'"%b":"%%d"' % name.encode())
    return (
        b'{"code":%d,"extFields":%b,"flag":0,"language":"%b","opaque":%%d,' % (code, fields, LANGUAGE.encode())
        + b'"serializeTypeCurrentRPC":"JSON","version":%d}' % versions.CURRENT
    )
