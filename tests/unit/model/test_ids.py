"""Message ids, byte by byte."""

from __future__ import annotations

import pytest

from apogeemq.model.ids import (
    OffsetId,
    UniqueIdRange,
    encode_host,
    offset_id,
    parse_offset_id,
    unique_id,
    unique_id_prefix,
    unique_id_start,
)

IPV4 = bytes((10, 0, 0, 2))
IPV6 = bytes(range(16))


def test_an_offset_id_says_where_the_message_is() -> None:
    text = offset_id(encode_host(IPV4, 10911), 4096)
    assert text == "0A00000200002A9F0000000000001000"
    assert parse_offset_id(text) == OffsetId(IPV4, 10911, 4096)


def test_an_offset_id_may_hold_a_long_address() -> None:
    text = offset_id(encode_host(IPV6, 1), 2**40)
    assert len(text) == 56
    assert parse_offset_id(text) == OffsetId(IPV6, 1, 2**40)


@pytest.mark.parametrize(
    "text", ["", "zz", "0A", "0A00000200002A9F00000000000010", "0A00000200002A9F000000000000100000"]
)
def test_what_is_no_offset_id_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"not the id|hexadecimal"):
        parse_offset_id(text)


def test_a_unique_id_has_javas_layout() -> None:
    prefix = unique_id_prefix(IPV4, 0x1234, 0x18B4AAC2)
    assert unique_id(unique_id_start(prefix, 0x0A0B0C0D), 0xFFFF) == "0A000002123418B4AAC20A0B0C0DFFFF"


def test_a_unique_id_wraps_what_does_not_fit() -> None:
    prefix = unique_id_prefix(IPV4, 0x7_1234, 2**32 + 1)
    assert (
        unique_id(unique_id_start(prefix, 2**32 + 5), 2**16 + 7)
        == "0A000002" + "1234" + "00000001" + "00000005" + "0007"
    )


@pytest.mark.parametrize(("first", "count"), [(0, 1), (254, 4), (5, 700), (65_530, 10), (7, 0)])
def test_ids_of_a_range_are_those_of_its_numbers(first: int, count: int) -> None:
    ids = UniqueIdRange("AB", first, count)
    assert ids.texts() == [unique_id("AB", number) for number in range(first, first + count)]
    assert ids.encoded() == [text.encode() for text in ids.texts()]
