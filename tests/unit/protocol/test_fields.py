"""Typed headers from string fields, read as Java reads them."""

from __future__ import annotations

import msgspec
import pytest

from apogeemq.errors import ProtocolError, RequestRefused
from apogeemq.protocol.codec import decode_frame, encode_request
from apogeemq.protocol.codes import ResponseCode
from apogeemq.protocol.command import BINARY, JSON, Command, Int32, Int64
from apogeemq.protocol.fields import HeaderReader, write_fields


class Header(msgspec.Struct):
    name: str
    number: Int32 = 7
    large: Int64 | None = None
    flag: bool = True
    perhaps: bool | None = None
    text: str | None = None
    zone: str | None = msgspec.field(default=None, name="__ZONE_NAME")


read = HeaderReader(Header)
CODECS = pytest.mark.parametrize("codec", [JSON, BINARY], ids=["json", "binary"])


def request(fields: dict[str, str], codec: int = JSON) -> Command:
    return decode_frame(encode_request(1, 1, fields, codec=codec)[4:])


@CODECS
def test_strings_become_the_declared_types(codec: int) -> None:
    fields = {
        "name": "n",
        "number": "-5",
        "large": "9223372036854775807",
        "flag": "false",
        "perhaps": "true",
        "text": "12",
        "__ZONE_NAME": "z",
        "unknown": "ignored",
    }
    assert read(request(fields, codec)) == Header("n", -5, 2**63 - 1, False, True, "12", "z")


@CODECS
def test_what_is_absent_has_its_default(codec: int) -> None:
    assert read(request({"name": "n"}, codec)) == Header("n", 7, None, True, None, None, None)


@CODECS
@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("05", 5),
        ("+5", 5),
        ("-05", -5),
        ("-0", 0),
        ("000", 0),
        # what Integer.parseInt refuses leaves the default
        (" 5", 7),
        ("5 ", 7),
        ("five", 7),
        ("2147483648", 7),
        ("--5", 7),
        ("0x5", 7),
        ("٥", 7),
    ],
)
def test_numbers_are_read_as_java_reads_them(text: str, number: int, codec: int) -> None:
    assert read(request({"name": "n", "number": text}, codec)).number == number


@CODECS
@pytest.mark.parametrize(
    ("text", "truth"), [("true", True), ("TRUE", True), ("tRuE", True), ("yes", False), ("t", False), ("false", False)]
)
def test_truth_values_are_read_as_java_reads_them(text: str, truth: bool, codec: int) -> None:
    header = read(request({"name": "n", "flag": text, "perhaps": text}, codec))
    assert (header.flag, header.perhaps) == (truth, truth)


@CODECS
def test_one_bad_value_does_not_cost_the_others(codec: int) -> None:
    header = read(request({"name": "n", "number": "x", "large": "08", "flag": "no", "text": "07"}, codec))
    assert header == Header("n", 7, 8, False, None, "07")


@CODECS
def test_a_missing_field_is_named_to_the_sender(codec: int) -> None:
    with pytest.raises(RequestRefused, match="the header field name is missing") as refused:
        read(request({"number": "1"}, codec))
    assert refused.value.code == ResponseCode.SYSTEM_ERROR


def test_a_required_number_that_is_none_is_named_to_the_sender() -> None:
    class Strict(msgspec.Struct):
        number: Int32

    with pytest.raises(RequestRefused, match="the header field number cannot be 'x'"):
        HeaderReader(Strict)(request({"number": "x"}))


def test_values_that_are_not_strings_are_read_too() -> None:
    command = decode_frame(
        b"\x00\x00\x00\x46" + b'{"code":1,"extFields":{"name":5,"number":6,"flag":false,"text":null}}'.ljust(0x46)
    )
    assert read(command) == Header("5", 6, None, False)


@pytest.mark.parametrize("fields", [b"[]", b'{"name":"\xff"}', b"7"])
def test_fields_that_are_no_map_are_a_protocol_error(fields: bytes) -> None:
    with pytest.raises(ProtocolError):
        read(Command(code=1, ext_json=msgspec.Raw(fields)))


def test_no_fields_at_all() -> None:
    with pytest.raises(RequestRefused):
        read(Command(code=1))
    with pytest.raises(RequestRefused):
        read(Command(code=1, ext_json=msgspec.Raw(b"null")))


def test_a_header_is_written_with_the_names_of_the_wire_and_without_nulls() -> None:
    header = Header("n", 5, None, True, False, "", "z")
    assert write_fields(header) == {
        "name": "n",
        "number": "5",
        "flag": "true",
        "perhaps": "false",
        "text": "",
        "__ZONE_NAME": "z",
    }


def test_written_fields_are_read_back() -> None:
    header = Header("n", -1, -(2**63), False, True, "t", "z")
    assert read(request(write_fields(header))) == header
