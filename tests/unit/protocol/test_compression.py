"""Compressed bodies: the three ways, what they are on the wire, and what is refused."""

from __future__ import annotations

import contextlib
import io
import os
import zlib

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from apogeemq.errors import ProtocolError
from apogeemq.model.flags import COMPRESSED, COMPRESSION_LZ4, COMPRESSION_ZLIB, COMPRESSION_ZSTD
from apogeemq.protocol import compression
from apogeemq.protocol.compression import FLAGS, LZ4, ZLIB, ZSTD, compress, decompress

WAYS = sorted(FLAGS)
TEXT = b"the same again and again; " * 400


@given(st.binary(max_size=5000), st.sampled_from(WAYS), st.integers(1, 9))
def test_a_body_comes_back_as_it_was(body: bytes, way: str, level: int) -> None:
    assert decompress(compress(body, way, level), COMPRESSED | FLAGS[way]) == body


@pytest.mark.parametrize("way", WAYS)
def test_large_bodies(way: str) -> None:
    body = os.urandom(300_000) + bytes(700_000)
    packed = compress(body, way)
    assert len(packed) < len(body)
    assert decompress(packed, COMPRESSED | FLAGS[way]) == body


def test_the_formats_are_those_of_java() -> None:
    assert zlib.decompress(compress(TEXT, ZLIB)) == TEXT
    assert lz4.frame.decompress(compress(TEXT, LZ4)) == TEXT
    assert zstandard.ZstdDecompressor().decompress(compress(TEXT, ZSTD)) == TEXT
    assert FLAGS == {ZLIB: COMPRESSION_ZLIB, LZ4: COMPRESSION_LZ4, ZSTD: COMPRESSION_ZSTD}
    assert (COMPRESSION_LZ4, COMPRESSION_ZSTD, COMPRESSION_ZLIB) == (0x100, 0x200, 0x300)


def test_a_stream_of_unknown_size_as_java_writes_it() -> None:
    written = io.BytesIO()
    with zstandard.ZstdCompressor().stream_writer(written, closefd=False) as stream:
        for part in (TEXT, b"", TEXT):
            stream.write(part)
    assert decompress(written.getvalue(), COMPRESSED | COMPRESSION_ZSTD) == TEXT * 2


def test_without_a_way_it_is_zlib() -> None:
    assert decompress(zlib.compress(TEXT), COMPRESSED) == TEXT


@pytest.mark.parametrize("flag", [0, COMPRESSION_LZ4, 0x10])
def test_what_is_not_marked_as_compressed_is_left_alone(flag: int) -> None:
    assert decompress(b"plain", flag) == b"plain"


@pytest.mark.parametrize("kind", [0x400, 0x500, 0x700])
def test_an_unknown_way_is_refused(kind: int) -> None:
    with pytest.raises(ProtocolError, match=f"unknown way, {kind:#x}"):
        decompress(TEXT, COMPRESSED | kind)


@pytest.mark.parametrize("way", WAYS)
def test_cut_off_at_every_byte(way: str) -> None:
    packed = compress(os.urandom(100) + TEXT[:200], way)
    for end in range(len(packed)):
        with pytest.raises(ProtocolError):
            decompress(packed[:end], COMPRESSED | FLAGS[way])


@pytest.mark.parametrize("way", WAYS)
def test_noise_is_refused(way: str) -> None:
    for noise in (b"noise", bytes(64), b"\xff" * 2000):
        with pytest.raises(ProtocolError):
            decompress(noise, COMPRESSED | FLAGS[way])


@given(st.binary(max_size=200), st.sampled_from([0, *FLAGS.values()]))
def test_any_bytes_give_a_body_or_a_clear_error(data: bytes, kind: int) -> None:
    with contextlib.suppress(ProtocolError):
        assert isinstance(decompress(data, COMPRESSED | kind), bytes)


@pytest.mark.parametrize("way", WAYS)
def test_a_bomb_is_refused(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "MAX_INFLATED_SIZE", 100_000)
    assert len(decompress(compress(bytes(99_999), way), COMPRESSED | FLAGS[way])) == 99_999
    with pytest.raises(ProtocolError, match="grows beyond 100000 bytes"):
        decompress(compress(bytes(50_000_000), way), COMPRESSED | FLAGS[way])


def test_a_bomb_that_does_not_say_its_size_is_never_unpacked_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "MAX_INFLATED_SIZE", 1_000_000)
    bomb = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(500_000_000))
    assert zstandard.frame_content_size(bomb) == -1
    with pytest.raises(ProtocolError, match="grows beyond"):
        decompress(bomb, COMPRESSED | COMPRESSION_ZSTD)
