"""Typed headers: a declared struct from and to the string fields of a command.

A header is a `msgspec.Struct` whose field names are Java's member names. Reading follows Java: unknown fields
are ignored, a value that does not parse leaves the default, a truth value is `true` in any case or false. A
required field that is missing is an error to the sender, with its name.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec

from apogeemq.errors import RequestRefused
from apogeemq.protocol.codes import ResponseCode
from apogeemq.protocol.command import JSON, Command, field_text

HeaderT = TypeVar("HeaderT", bound=msgspec.Struct)

_TRUTH_VALUES = (bool, bool | None)
_TEXTS = (str, str | None)
_JAVA_NUMBER = re.compile(r"(?:\+|(-))?0*([0-9]+)", re.ASCII)


class HeaderReader(Generic[HeaderT]):
    """Reads one type of header; made once, at import."""

    __slots__ = ("_decode", "_fields", "_is_strict", "_type")

    def __init__(self, header_type: type[HeaderT], *, is_strict: bool = False) -> None:
        """Strict: a value that does not parse is an error in any field, not only in one that must be there."""
        self._is_strict = is_strict
        self._type = header_type
        self._decode = msgspec.json.Decoder(header_type, strict=False).decode
        self._fields = msgspec.structs.fields(header_type)

    def __call__(self, command: Command) -> HeaderT:
        return self.read(command)

    def read(self, command: Command) -> HeaderT:
        """For compiled modules, which call a method by its name without detours."""
        try:
            if command.codec == JSON:
                return self._decode(command.ext_json)
            return msgspec.convert(command.fields(), self._type, strict=False)
        except (msgspec.MsgspecError, RecursionError, ValueError):
            return self._read_as_java(command.fields())

    def _read_as_java(self, fields: dict[str, str]) -> HeaderT:
        values: dict[str, Any] = {}
        for field in self._fields:
            text = fields.get(field.encode_name)
            if text is not None:
                try:
                    values[field.name] = msgspec.convert(_as_msgspec_writes(text, field.type), field.type, strict=False)
                    continue
                except msgspec.ValidationError:
                    pass
            if field.required or (self._is_strict and text is not None):
                problem = "is missing" if text is None else f"cannot be {text[:100]!r}"
                raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"the header field {field.encode_name} {problem}")
        return self._type(**values)


def _as_msgspec_writes(text: str, field_type: Any) -> str:
    """Forms only Java takes: any word is a truth value, a number may begin with + or 0."""
    if field_type in _TRUTH_VALUES:
        return "true" if text.lower() == "true" else "false"
    number = _JAVA_NUMBER.fullmatch(text)
    return text if number is None or field_type in _TEXTS else f"{number[1] or ''}{number[2]}"


def write_fields(header: msgspec.Struct) -> dict[str, str]:
    """The string fields of a header; None is left out."""
    return {
        wire_name: field_text(value)
        for name, wire_name in _names(type(header))
        if (value := getattr(header, name)) is not None
    }


@cache
def _names(header_type: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, field.encode_name) for field in msgspec.structs.fields(header_type))
