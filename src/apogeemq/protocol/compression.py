"""Message bodies smaller on the wire and on disk, in the three ways brokers and clients of 5.x know.

The system flag says whether a body is compressed, and how; a body without a way was made by a client before 5.0 and is
zlib's.
"""

from __future__ import annotations

import zlib
from typing import Final

from apogeemq.errors import ProtocolError
from apogeemq.model.flags import (
    COMPRESSED,
    COMPRESSION_LZ4,
    COMPRESSION_MASK,
    COMPRESSION_ZLIB,
    COMPRESSION_ZSTD,
)

MAX_INFLATED_SIZE: Final = 128 * 1024 * 1024  # a body of some bytes that grows beyond this is an attack
_ZSTD_STEP: Final = (
    1024  # taken at once: some bytes can stand for 128 KiB, and what a frame says of its size is not sworn
)
ZLIB: Final = "zlib"
LZ4: Final = "lz4"
ZSTD: Final = "zstd"
FLAGS: Final = {ZLIB: COMPRESSION_ZLIB, LZ4: COMPRESSION_LZ4, ZSTD: COMPRESSION_ZSTD}


def compress(body: bytes, way: str, level: int = 5) -> bytes:
    """`way` is one of FLAGS."""
    if way == ZLIB:
        return zlib.compress(body, level)
    if way == LZ4:
        import lz4.frame

        packed: bytes = lz4.frame.compress(body, compression_level=level)
        return packed
    import zstandard

    return zstandard.ZstdCompressor(level=level).compress(body)


def decompress(body: bytes, system_flag: int) -> bytes:
    """The body as it was sent. ProtocolError when it is not what the flag says."""
    if not system_flag & COMPRESSED:
        return body
    kind = system_flag & COMPRESSION_MASK
    try:
        if kind in (0, COMPRESSION_ZLIB):
            return _inflate(body)
        if kind == COMPRESSION_LZ4:
            return _unpack_lz4(body)
        if kind == COMPRESSION_ZSTD:
            return _unpack_zstd(body)
    except (zlib.error, RuntimeError, EOFError) as error:
        raise ProtocolError(f"the compressed body cannot be read: {error}") from None
    raise ProtocolError(f"the body is compressed in an unknown way, {kind:#x}")


def _inflate(body: bytes) -> bytes:
    inflater = zlib.decompressobj()
    data = inflater.decompress(body, MAX_INFLATED_SIZE)
    if inflater.unconsumed_tail:
        raise _too_large()
    if not inflater.eof:
        raise ProtocolError("the compressed body is cut off")
    return data


def _unpack_lz4(body: bytes) -> bytes:
    import lz4.frame

    unpacker = lz4.frame.LZ4FrameDecompressor()
    data: bytes = unpacker.decompress(body, max_length=MAX_INFLATED_SIZE)
    if not unpacker.eof:
        raise _too_large() if len(data) >= MAX_INFLATED_SIZE else ProtocolError("the compressed body is cut off")
    return data


def _unpack_zstd(body: bytes) -> bytes:
    import zstandard

    pieces: list[bytes] = []
    size = 0
    try:
        unpacker = zstandard.ZstdDecompressor().decompressobj()
        for start in range(0, len(body), _ZSTD_STEP):
            pieces.append(unpacker.decompress(body[start : start + _ZSTD_STEP]))
            size += len(pieces[-1])
            if size > MAX_INFLATED_SIZE:
                raise _too_large()
            if unpacker.eof:
                return b"".join(pieces)
    except zstandard.ZstdError as error:
        raise ProtocolError(f"the compressed body cannot be read: {error}") from None
    raise ProtocolError("the compressed body is cut off")


def _too_large() -> ProtocolError:
    return ProtocolError(f"the compressed body grows beyond {MAX_INFLATED_SIZE} bytes")
