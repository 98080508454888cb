"""Any bytes parse, or raise the one protocol error."""

from __future__ import annotations

import zlib
from contextlib import suppress
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from apogeemq.errors import ProtocolError, RequestRefused
from apogeemq.protocol import header_binary, header_json, javajson, versions
from apogeemq.protocol.bodies.registration import (
    RegisterBody,
    Registration,
    TopicConfig,
    decode_registration,
    encode_registration,
)
from apogeemq.protocol.bodies.registration_index import RegistrationIndex
from apogeemq.protocol.bodies.routes import decode_route
from apogeemq.protocol.codec import decode_frame, encode_request
from apogeemq.protocol.command import BINARY, JSON, Command
from apogeemq.protocol.fields import HeaderReader
from apogeemq.protocol.framing import FrameReader
from apogeemq.protocol.headers import nameserver as headers

READERS = [value for value in vars(headers).values() if isinstance(value, HeaderReader)]

_words = st.sampled_from(
    rb"""{ } [ ] , : " \ ' null true 0 -1 1e9 2147483648 NaN "a" "\ud800" "code" "opaque" "flag" "remark" "extFields"
    "#ext" "#shortcut" "topicConfigSerializeWrapper" "topicConfigTable" "dataVersion" "brokerDatas" "brokerAddrs"
    """.split()
) | st.sampled_from([b" ", b"\xff"])
jsonish = st.lists(_words, max_size=40).map(b"".join)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=5,
)
field_names = st.sampled_from(
    sorted({field.encode_name for reader in READERS for field in reader._fields} | {"unknown", ""})
)
headers_of_any_values = st.fixed_dictionaries(
    {},
    optional={
        "code": st.integers() | json_values,
        "opaque": st.integers() | json_values,
        "flag": json_values,
        "version": json_values,
        "language": json_values,
        "remark": json_values,
        "extFields": st.dictionaries(field_names, json_values, max_size=6) | json_values,
        "#ext": json_values,
        "#shortcut": json_values,
        "#body": json_values,
        "#codec": json_values,
    },
)
any_header = st.binary(max_size=60) | jsonish | headers_of_any_values.map(msgspec.json.encode)


def use(command: Command) -> None:
    """All that is decoded lazily."""
    try:
        fields = command.fields()
    except ProtocolError:
        return
    assert all(type(name) is type(value) is str for name, value in fields.items())
    for read in READERS:
        with suppress(RequestRefused):
            read(command)


@given(st.lists(st.binary(max_size=40), max_size=6), st.integers(8, 64))
def test_streams(reads: list[bytes], max_frame_size: int) -> None:
    reader = FrameReader(max_frame_size)
    for data in reads:
        for frame in reader.feed(data):
            with suppress(ProtocolError):
                use(decode_frame(frame))
        if reader.error is not None:
            assert isinstance(reader.error, ProtocolError)
            return
        assert reader.partial_size < max_frame_size


@given(st.sampled_from([JSON, BINARY, 2, 255]), any_header, st.binary(max_size=8), st.integers(-2, 2))
def test_frames(codec: int, header: bytes, body: bytes, error: int) -> None:
    mark = (codec << 24 | max(len(header) + error, 0)).to_bytes(4, "big")
    with suppress(ProtocolError):
        use(decode_frame(mark + header + body))


@given(st.binary(max_size=3))
def test_frames_too_short_for_a_mark(frame: bytes) -> None:
    try:
        decode_frame(frame)
    except ProtocolError:
        return
    raise AssertionError("decoded")


@given(any_header)
def test_json_headers(header: bytes) -> None:
    try:
        command = header_json.decode(header)
    except ProtocolError:
        return
    assert -(2**31) <= command.code < 2**31
    assert command.shortcut is None
    use(command)


@given(st.binary(max_size=80))
def test_binary_headers(header: bytes) -> None:
    with suppress(ProtocolError):
        use(header_binary.decode(header))


@given(
    st.binary(max_size=20),
    st.integers(-5, 40),
    st.integers(-5, 60),
    st.lists(st.tuples(st.integers(-2, 12), st.binary(max_size=10), st.integers(-2, 12), st.binary(max_size=10))),
)
def test_binary_headers_that_are_nearly_right(
    remark: bytes, remark_length: int, fields_length: int, entries: list[tuple[int, bytes, int, bytes]]
) -> None:
    text = bytes(13) + remark_length.to_bytes(4, "big", signed=True) + remark
    text += fields_length.to_bytes(4, "big", signed=True)
    for name_length, name, value_length, value in entries:
        text += name_length.to_bytes(2, "big", signed=True) + name
        text += value_length.to_bytes(4, "big", signed=True) + value
    with suppress(ProtocolError):
        use(header_binary.decode(text))


@given(st.dictionaries(field_names, json_values, max_size=8))
def test_typed_headers_of_any_values(fields: dict[str, Any]) -> None:
    use(Command(code=1, ext_json=msgspec.Raw(msgspec.json.encode(fields))))


@given(st.dictionaries(field_names, st.text(max_size=12), max_size=8))
def test_typed_headers_of_any_strings_are_the_same_in_both_codecs(fields: dict[str, str]) -> None:
    fields = {name: value for name, value in fields.items() if name and value}  # the binary codec keeps no others
    as_json = decode_frame(encode_request(1, 1, fields)[4:])
    as_binary = decode_frame(encode_request(1, 1, fields, codec=BINARY)[4:])
    for read in READERS:
        outcomes: list[Any] = []
        for command in (as_json, as_binary):
            try:
                outcomes.append(read(command))
            except RequestRefused as refused:
                outcomes.append((refused.code, refused.remark))
        assert outcomes[0] == outcomes[1]


@given(jsonish | st.binary(max_size=60), st.sampled_from([dict[str, Any], dict[int, str], list[str], RegisterBody]))
def test_bodies(data: bytes, into: type) -> None:
    for read in (lambda: javajson.loads(data, into), lambda: javajson.parse(data), lambda: decode_route(data)):
        with suppress(ProtocolError):
            read()


@given(jsonish | st.binary(max_size=200), st.sampled_from([0, versions.V3_0_11, versions.V5_5_0]), st.booleans())
def test_registrations(body: bytes, version: int, compressed: bool) -> None:
    for form in (body, b"\x78" + body, zlib.compress(body)):
        with suppress(ProtocolError):
            assert isinstance(decode_registration(form, version, compressed), Registration)


@given(
    st.lists(
        st.integers(-1, 12).map(lambda size: size.to_bytes(4, "big", signed=True))
        | st.sampled_from([b"{}", b"[]", b"T 1 1 6 X", b"\x00\x00\x00\x02{}", b"\x00\x00\x00\x02[]"])
        | st.binary(max_size=6),
        max_size=12,
    ).map(b"".join)
)
def test_inflated_registrations(data: bytes) -> None:
    with suppress(ProtocolError):
        decode_registration(zlib.compress(data), versions.V5_5_0, compressed=True)


_WHOLE = encode_registration(
    Registration(topics={name: TopicConfig(name) for name in map("Topic{}".format, range(200))})
)


@given(st.integers(0, len(_WHOLE)), st.integers(0, 300), st.binary(max_size=30) | jsonish)
def test_registrations_that_differ_in_one_place(start: int, length: int, instead: bytes) -> None:
    """What the index makes of a damaged body is never more than the whole decoder would have found in it."""
    index = RegistrationIndex.of(_WHOLE)
    assert index is not None
    body = _WHOLE[:start] + instead + _WHOLE[start + length :]
    changes = index.read_changes(body)
    if changes is None:
        return
    for config in changes.topics.values():
        assert isinstance(config, TopicConfig)
