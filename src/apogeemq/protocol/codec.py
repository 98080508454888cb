"""Whole frames: pick the header codec, put the parts together or take them apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct, error
from typing import Final, TypeAlias

from apogeemq.errors import ProtocolError
from apogeemq.protocol import header_binary, header_json, versions
from apogeemq.protocol.command import (
    BINARY,
    FLAG_ONE_WAY,
    FLAG_RESPONSE,
    JSON,
    LANGUAGE,
    Command,
    CommandHead,
)
from apogeemq.protocol.header_json import BAD_JSON

_MARK: Final = Struct(">I")
_LENGTH_AND_MARK: Final = Struct(">II")
_HEADER_LENGTH_MASK: Final = 0xFFFFFF
# Real headers are a few kilobytes, those that carry message properties or a KV value some more. Read as objects a
# header may take thirty times its size, so it gets less room than a frame.
MAX_HEADER_SIZE: Final = 1024 * 1024

_MAX_HEADER_END: Final = 4 + MAX_HEADER_SIZE

_unpack_mark: Final = _MARK.unpack_from
_pack_start: Final = _LENGTH_AND_MARK.pack
_decode_json: Final = header_json.decode

_OK_START: Final = f'{{"code":0,"flag":1,"language":"{LANGUAGE}","opaque":'.encode()
_OK_END: Final = f',"serializeTypeCurrentRPC":"JSON","version":{versions.CURRENT}}}'.encode()
_OK_LENGTH: Final = len(_OK_START) + len(_OK_END)


# From the first TYPED_START bytes of a JSON header to a decoder of a command whose extension fields are typed.
TypedDecoders: TypeAlias = dict[bytes, Callable[[bytes], Command]]
TYPED_START: Final = len(b'{"code":310,')


def decode_frame(frame: bytes, typed: TypedDecoders | None = None) -> Command:
    """A frame as `FrameReader` gives it, starting at its mark. Raises only ProtocolError.

    With `typed` decoders those headers that one of them takes are read in one pass; all others in the ordinary way.
    """
    try:
        mark: int = _unpack_mark(frame)[0]
    except error:
        raise ProtocolError(f"a frame of {len(frame)} bytes has no mark") from None
    header_end = 4 + (mark & _HEADER_LENGTH_MASK)
    if header_end > len(frame):
        raise ProtocolError(f"header of {header_end - 4} bytes runs past a frame of {len(frame)}")
    if header_end > _MAX_HEADER_END:
        raise ProtocolError(f"header of {header_end - 4} bytes is longer than {MAX_HEADER_SIZE}")
    codec = mark >> 24
    if codec == JSON:
        header = frame[4:header_end]
        decode = typed.get(header[:TYPED_START]) if typed is not None else None
        command = _decode_json(header) if decode is None else _decode_typed(header, decode)
    elif codec == BINARY:
        command = header_binary.decode(frame[4:header_end])
    else:
        raise ProtocolError(f"unknown header codec {codec}")
    command.body = frame[header_end:]
    command.codec = codec
    return command


def _decode_typed(header: bytes, decode: Callable[[bytes], Command]) -> Command:
    try:
        return decode(header)
    except BAD_JSON:
        return _decode_json(header)


def encode_frame(
    head: CommandHead, fields: Mapping[str, str] | None = None, body: bytes = b"", codec: int = JSON
) -> bytes:
    """A whole frame, length word included."""
    header = (header_binary if codec == BINARY else header_json).encode(head, fields)
    length = len(header)
    if length > _HEADER_LENGTH_MASK:
        raise ValueError(f"a header of {length} bytes does not fit a frame")
    start: bytes = _pack_start(4 + length + len(body), codec << 24 | length)
    return b"".join((start, header, body))


def encode_request(
    code: int,
    opaque: int,
    fields: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    one_way: bool = False,
    codec: int = JSON,
) -> bytes:
    return encode_frame(CommandHead(code, opaque, FLAG_ONE_WAY if one_way else 0), fields, body, codec)


def encode_reply(
    request: Command,
    code: int = 0,
    remark: str | None = None,
    fields: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> bytes:
    """The answer to `request`, in the codec the request came in."""
    return encode_frame(CommandHead(code, request.opaque, FLAG_RESPONSE, remark), fields, body, request.codec)


def encode_ok(request: Command, body: bytes) -> bytes:
    """Success with a body and no fields."""
    if request.codec != JSON:
        return encode_reply(request, body=body)
    return encode_ok_text(b"%d" % request.opaque, body)


def encode_ok_text(opaque: bytes, body: bytes) -> bytes:
    """The hot answer, from a template: the opaque number as the digits it came in."""
    length = _OK_LENGTH + len(opaque)
    return b"%b%b%b%b%b" % (_pack_start(4 + length + len(body), length), _OK_START, opaque, _OK_END, body)
