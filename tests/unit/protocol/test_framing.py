"""Cutting a byte stream into frames."""

from __future__ import annotations

import pytest

from apogeemq.errors import ProtocolError
from apogeemq.protocol.framing import MAX_FRAME_SIZE, FrameReader

ONE = b"\x00\x00\x00\x05MARK1"
TWO = b"\x00\x00\x00\x06MARK22"
SMALLEST = b"\x00\x00\x00\x04MARK"


def test_a_frame_is_handed_out_without_its_length_word() -> None:
    reader = FrameReader()
    assert reader.feed(ONE) == [b"MARK1"]
    assert not reader.is_mid_frame


def test_a_frame_may_hold_nothing_but_its_mark() -> None:
    assert FrameReader().feed(SMALLEST) == [b"MARK"]


def test_many_frames_of_one_read_come_in_order_and_the_rest_is_kept() -> None:
    reader = FrameReader()
    assert reader.feed(ONE + TWO + ONE[:6]) == [b"MARK1", b"MARK22"]
    assert reader.is_mid_frame
    assert reader.partial_size == 6
    assert reader.feed(ONE[6:] + TWO) == [b"MARK1", b"MARK22"]
    assert not reader.is_mid_frame


@pytest.mark.parametrize("cut", range(1, len(ONE)))
def test_a_frame_cut_anywhere_is_put_together(cut: int) -> None:
    reader = FrameReader()
    assert reader.feed(ONE[:cut]) == []
    assert reader.is_mid_frame
    assert reader.feed(ONE[cut:]) == [b"MARK1"]


def test_byte_by_byte() -> None:
    reader = FrameReader()
    assert [frame for byte in ONE + TWO for frame in reader.feed(bytes([byte]))] == [b"MARK1", b"MARK22"]


def test_a_trickled_frame_is_kept_in_few_pieces() -> None:
    reader = FrameReader()
    body = bytes(range(256)) * 40
    stream = (4 + len(body)).to_bytes(4, "big") + b"MARK" + body
    for start in range(0, len(stream) - 2, 2):
        assert reader.feed(stream[start : start + 2]) == []
        assert len(reader._chunks) <= 2
    assert reader.feed(stream[-2:]) == [b"MARK" + body]


def test_small_and_large_pieces_mix() -> None:
    body = bytes(range(256)) * 40
    stream = (4 + len(body)).to_bytes(4, "big") + b"MARK" + body
    reader = FrameReader()
    frames = []
    for start, end in ((0, 10), (10, 20), (20, 5000), (5000, 5001), (5001, len(stream))):
        assert reader.partial_size == start
        frames += reader.feed(stream[start:end])
    assert frames == [b"MARK" + body]


@pytest.mark.parametrize("step", [7, 999, 16_000, 20_001, 40_006, 65_536, 10**6])
def test_large_frames_among_small_ones_come_whole(step: int) -> None:
    sizes = (4, 40_000, 17, 70_000, 70_001, 4, 20_000)
    bodies = [bytes([number]) * size for number, size in enumerate(sizes)]
    stream = b"".join(len(body).to_bytes(4, "big") + body for body in bodies)
    for skipped in (0, 1, 3, 5):  # so that cuts fall everywhere, into lengths too
        reader = FrameReader()
        frames = reader.feed(stream[:skipped])
        for start in range(skipped, len(stream), step):
            frames += reader.feed(stream[start : start + step])
        assert frames == bodies
        assert not reader.is_mid_frame


@pytest.mark.parametrize("length", [0, 3, MAX_FRAME_SIZE - 3, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_an_impossible_length_is_an_error(length: int) -> None:
    reader = FrameReader()
    assert reader.feed(length.to_bytes(4, "big")) == []
    assert isinstance(reader.error, ProtocolError)
    assert str(length) in str(reader.error)


def test_frames_before_a_bad_one_are_still_handed_out() -> None:
    reader = FrameReader()
    assert reader.feed(ONE + TWO + b"GET / HTTP/1.1\r\n") == [b"MARK1", b"MARK22"]
    assert reader.error is not None


def test_the_largest_frame_counts_its_length_word() -> None:
    reader = FrameReader(max_frame_size=12)
    assert reader.feed(b"\x00\x00\x00\x08MARKbody") == [b"MARKbody"]
    assert reader.error is None
    reader.feed(b"\x00\x00\x00\x09")
    assert reader.error is not None
