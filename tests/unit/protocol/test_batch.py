"""The body of a batch: whole, cut anywhere, and lying about its lengths."""

from __future__ import annotations

import contextlib
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apogeemq.errors import ProtocolError
from apogeemq.protocol.batch import decode_batch, encode_alike, encode_batch

MESSAGES = [(7, b"one", b"KEYS\x01k\x02"), (-1, b"", b""), (0, b"three", b"TAGS\x01t\x02")]


def test_each_field_is_where_java_puts_it() -> None:
    assert encode_batch([(7, b"hi", b"A\x01b\x02")]) == (
        pack(">iiiii", 28, 0, 0, 7, 2) + b"hi" + pack(">h", 4) + b"A\x01b\x02"
    )


@given(
    st.lists(
        st.tuples(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=50), st.binary(max_size=50)),
        max_size=5,
    )
)
def test_what_is_written_is_read(messages: list[tuple[int, bytes, bytes]]) -> None:
    assert decode_batch(encode_batch(messages)) == messages


@pytest.mark.parametrize("length", range(1, len(encode_batch(MESSAGES))))
def test_a_batch_cut_off_is_an_error_or_fewer_messages(length: int) -> None:
    data = encode_batch(MESSAGES)[:length]
    try:
        assert decode_batch(data) in (MESSAGES[:1], MESSAGES[:2])
    except ProtocolError as error:
        assert "of the batch" in str(error)


@pytest.mark.parametrize(
    "lie",
    [
        pack(">iiiii", 22, 0, 0, 0, -1) + pack(">h", 0),
        pack(">iiiii", 22, 0, 0, 0, 2**31 - 1) + pack(">h", 0),
        pack(">iiiii", 0, 0, 0, 0, 0) + pack(">h", 0),
        pack(">iiiii", 23, 0, 0, 0, 0) + pack(">h", 0) + b"x",
        pack(">iiiii", 22, 0, 0, 0, 0) + pack(">h", -1),
        pack(">iiiii", 1_000, 0, 0, 0, 0) + pack(">h", 978),
        pack(">iiiii", -22, 0, 0, 0, 0) + pack(">h", 0),
    ],
)
def test_lengths_that_lie_are_an_error(lie: bytes) -> None:
    with pytest.raises(ProtocolError, match="message 0 of the batch"):
        decode_batch(lie)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_batch_or_the_one_error(data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        decode_batch(data)


@pytest.mark.parametrize("bodies", [[b"one"], [b"one", b"two"], [b"one", b"", b"three"]])
def test_messages_that_differ_in_a_name_are_written_as_any_others(bodies: list[bytes]) -> None:
    names = [b"%02d" % number for number in range(len(bodies))]
    written = [(0, body, b"a" + name + b"b") for body, name in zip(bodies, names, strict=True)]
    assert encode_alike(bodies, b"a", names, b"b") == encode_batch(written)
