"""The ROCKETMQ binary header codec (serialize type 1).

::

    code         int16     codes above 32767 cannot be carried
    language     byte      index into `LANGUAGES`
    version      int16
    opaque       int32
    flag         int32
    remark       int32 length, UTF-8
    fields       int32 length in bytes of all entries, then per entry:
                 int16 length, UTF-8 name, int32 length, UTF-8 value

Empty strings are not kept: a zero length reads as absent, as in Apache's codec.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct, error

from apogeemq.errors import ProtocolError
from apogeemq.protocol.command import BINARY, LANGUAGES, Command, CommandHead, FieldMap

_FIXED = Struct(">hBhiii")  # code, language, version, opaque, flag, remark length
_INT16 = Struct(">h")
_INT32 = Struct(">i")
_OTHER = LANGUAGES.index("OTHER")


def encode(head: CommandHead, fields: Mapping[str, str] | None) -> bytes:
    remark = (head.remark or "").encode()
    entries = bytearray()
    language = LANGUAGES.index(head.language) if head.language in LANGUAGES else _OTHER
    try:
        fixed = _FIXED.pack(head.code, language, head.version, head.opaque, head.flag, len(remark))
        for name, value in (fields or {}).items():
            name_bytes, value_bytes = name.encode(), value.encode()
            entries += _INT16.pack(len(name_bytes)) + name_bytes + _INT32.pack(len(value_bytes)) + value_bytes
    except error as problem:
        raise ValueError(f"code {head.code} with its version and fields does not fit: {problem}") from None
    return fixed + remark + _INT32.pack(len(entries)) + bytes(entries)


def decode(header: bytes) -> Command:
    try:
        code, language, version, opaque, flag, remark_length = _FIXED.unpack_from(header)
        remark, position = _text(header, _FIXED.size, remark_length)
        (fields_length,) = _INT32.unpack_from(header, position)
        fields = _fields(header, position + 4, fields_length)
    except (error, UnicodeDecodeError) as problem:
        raise ProtocolError(f"binary header: {problem}") from None
    return Command(
        code=code,
        opaque=opaque,
        flag=flag,
        version=version,
        language=LANGUAGES[language] if language < len(LANGUAGES) else language,
        remark=remark or None,
        codec=BINARY,
        ext_map=fields,
    )


def _text(header: bytes, position: int, length: int) -> tuple[str, int]:
    end = position + length
    if length < 0 or end > len(header):
        raise ProtocolError(f"binary header: a text of {length} bytes at {position} runs past the header")
    return header[position:end].decode(), end


def _fields(header: bytes, position: int, length: int) -> FieldMap:
    end = position + length
    if length < 0 or end > len(header):
        raise ProtocolError(f"binary header: {length} bytes of fields run past the header")
    fields = FieldMap()
    while position < end:
        (name_length,) = _INT16.unpack_from(header, position)
        name, position = _text(header, position + 2, name_length)
        (value_length,) = _INT32.unpack_from(header, position)
        value, position = _text(header, position + 4, value_length)
        if name and value:
            fields[name] = value
    return fields
