"""The JSON header codec (serialize type 0). Keys are written in Apache's order and nulls left out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from apogeemq.errors import ProtocolError
from apogeemq.protocol.command import Command, CommandHead, FieldMap, field_text

_decode = msgspec.json.Decoder(Command, strict=False).decode
_encode = msgspec.json.Encoder().encode
BAD_JSON = (msgspec.MsgspecError, RecursionError, ValueError)
# Whole surrogate pairs, halves of them, and any other escape, so that none is entered in its middle.
_ESCAPES = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)


class _WireHeader(msgspec.Struct):
    code: int
    extFields: Mapping[str, str] | msgspec.UnsetType
    flag: int
    language: str
    opaque: int
    remark: str | msgspec.UnsetType
    serializeTypeCurrentRPC: str
    version: int


def encode(head: CommandHead, fields: Mapping[str, str] | None) -> bytes:
    return _encode(
        _WireHeader(
            head.code,
            msgspec.UNSET if fields is None else fields,
            head.flag,
            head.language,
            head.opaque,
            msgspec.UNSET if head.remark is None else head.remark,
            "JSON",
            head.version,
        )
    )


def decode(header: bytes) -> Command:
    try:
        return _decode(header)
    except BAD_JSON:
        return _decode_leniently(header)


def _decode_leniently(header: bytes) -> Command:
    """Headers with odd values, which Java coerces: a number for a remark, null for a flag, half a character."""
    try:
        raw = msgspec.json.decode(_ESCAPES.sub(_whole_character, header))
    except BAD_JSON as error:
        raise ProtocolError(f"header is not JSON: {error}") from None
    if not isinstance(raw, dict):
        raise ProtocolError("header is not a JSON object")
    try:
        command = msgspec.convert(_known_values(raw), Command, strict=False)
        fields = raw.get("extFields")
        if isinstance(fields, dict):
            command.ext_map = FieldMap((name, field_text(value)) for name, value in fields.items() if value is not None)
            command.ext_json = msgspec.Raw(_encode(command.ext_map))
        return command
    except BAD_JSON as error:
        raise ProtocolError(f"header: {error}") from None


def _whole_character(escape: re.Match[bytes]) -> bytes:
    """Half a surrogate pair stands for nothing: Java makes it a question mark when it has to write it."""
    return b"?" if escape["half"] is not None else escape[0]


def _known_values(raw: dict[str, Any]) -> dict[str, Any]:
    values = {name: raw[name] for name in ("code", "opaque", "flag", "version") if raw.get(name) is not None}
    if raw.get("remark") is not None:
        values["remark"] = field_text(raw["remark"])
    language = raw.get("language")
    if isinstance(language, str | int):
        values["language"] = language
    return values
