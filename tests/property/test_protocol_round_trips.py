"""What is written is read back, whatever it is and however the stream is cut."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from apogeemq.model.routes import BrokerGroup, DataVersion, QueueMapping, QueueSettings, TopicRoute
from apogeemq.protocol import javajson, versions
from apogeemq.protocol.bodies.registration import Registration, TopicConfig, decode_registration, encode_registration
from apogeemq.protocol.bodies.registration_index import RegistrationIndex
from apogeemq.protocol.bodies.routes import decode_route, encode, topic_route
from apogeemq.protocol.codec import decode_frame, encode_frame, encode_ok, encode_reply
from apogeemq.protocol.command import BINARY, JSON, LANGUAGES, Command, CommandHead
from apogeemq.protocol.fields import HeaderReader, write_fields
from apogeemq.protocol.framing import FrameReader
from apogeemq.protocol.headers import nameserver as headers
from apogeemq.protocol.signing import is_signed_with, signed

READERS = [value for value in vars(headers).values() if isinstance(value, HeaderReader)]

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
some_text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
codecs = st.sampled_from([JSON, BINARY])
heads = st.builds(
    CommandHead,
    code=st.integers(-(2**15), 2**15 - 1),
    opaque=int32,
    flag=int32,
    remark=st.none() | some_text,
    language=st.sampled_from(LANGUAGES),
    version=st.integers(-(2**15), 2**15 - 1),
)


@given(heads, st.dictionaries(some_text, some_text, max_size=5), st.binary(max_size=50), codecs)
def test_frames(head: CommandHead, fields: dict[str, str], body: bytes, codec: int) -> None:
    frame = encode_frame(head, fields, body, codec)
    (inside,) = FrameReader().feed(frame)
    command = decode_frame(inside)
    assert (command.code, command.opaque, command.flag) == (head.code, head.opaque, head.flag)
    assert (command.remark, command.language, command.version) == (head.remark, head.language, head.version)
    assert (command.fields(), command.body, command.codec) == (fields, body, codec)


@given(st.dictionaries(text, text, max_size=5), text)
def test_the_json_codec_keeps_empty_strings(fields: dict[str, str], remark: str) -> None:
    command = decode_frame(encode_frame(CommandHead(1, 1, remark=remark), fields)[4:])
    assert (command.fields(), command.remark) == (fields, remark)


@given(int32, st.binary(max_size=50), codecs)
def test_the_template_of_success_equals_the_encoder(opaque: int, body: bytes, codec: int) -> None:
    request = Command(code=1, opaque=opaque, codec=codec)
    assert encode_ok(request, body) == encode_reply(request, body=body)


@given(st.lists(st.binary(min_size=4, max_size=3000), max_size=8), st.data())
def test_a_stream_gives_the_same_frames_however_it_is_cut(frames: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    reader = FrameReader()
    found: list[bytes] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        if start < end:
            found += reader.feed(stream[start:end])
            done = sum(4 + len(frame) for frame in found)
            assert reader.partial_size == end - done
    assert found == frames
    assert reader.error is None
    assert not reader.is_mid_frame


def _header(header_type: type[msgspec.Struct]) -> st.SearchStrategy[msgspec.Struct]:
    by_type: dict[Any, st.SearchStrategy[Any]] = {str: some_text, bool: st.booleans()}

    def values(field: msgspec.structs.FieldInfo) -> st.SearchStrategy[Any]:
        declared = str(field.type)
        known = by_type.get(field.type)
        if known is None:
            known = some_text if "str" in declared else st.booleans() if "bool" in declared else None
        if known is None:
            known = int32 if str(2**31 - 1) in declared else int64
        return known if field.required else known | st.just(field.default)

    return st.builds(header_type, **{field.name: values(field) for field in msgspec.structs.fields(header_type)})


@given(st.sampled_from(READERS).flatmap(lambda read: st.tuples(st.just(read), _header(read._type))), codecs)
def test_typed_headers(pair: tuple[HeaderReader[Any], msgspec.Struct], codec: int) -> None:
    read, header = pair
    command = decode_frame(encode_frame(CommandHead(1, 1), write_fields(header), b"", codec)[4:])
    assert read(command) == header


_keys = st.integers() | text
dialect = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.integers(-(2**63), 2**63), inner, max_size=4)
        | st.dictionaries(text, inner, max_size=4)
        | st.lists(st.tuples(st.dictionaries(text, inner, max_size=2), inner), min_size=1, max_size=3).map(
            javajson.Pairs
        )
    ),
    max_leaves=15,
)


@given(dialect)
def test_the_whole_dialect(value: Any) -> None:
    assert javajson.parse(javajson.dumps(value)) == value


@given(st.dictionaries(st.integers(-(2**63), 2**63 - 1), st.dictionaries(text, text, max_size=3), max_size=5))
def test_number_keys_bare_or_quoted(value: dict[int, dict[str, str]]) -> None:
    for written in (javajson.dumps(value), msgspec.json.encode(value)):
        assert javajson.loads(written, dict[int, dict[str, str]]) == value


topic_configs = st.builds(TopicConfig, topicName=some_text, readQueueNums=int32, writeQueueNums=int32, perm=int32)
mappings = st.builds(
    QueueMapping,
    bname=st.none() | text,
    currIdMap=st.none() | st.dictionaries(int32, int32, max_size=3),
    dirty=st.booleans(),
    epoch=int64,
    scope=st.none() | text,
    topic=some_text,
    totalQueues=int32,
)
registrations = st.builds(
    Registration,
    data_version=st.builds(DataVersion, counter=int64, stateVersion=int64, timestamp=int64),
    topics=st.lists(topic_configs, max_size=4).map(lambda topics: {str(topic.topicName): topic for topic in topics}),
    queue_mappings=st.lists(mappings, max_size=3).map(lambda found: {str(one.topic): one for one in found}),
    filter_servers=st.lists(text, max_size=2),
)


@given(registrations)
def test_registrations_as_json(said: Registration) -> None:
    assert decode_registration(encode_registration(said), versions.V5_5_0, compressed=False) == said


def _deflated(said: Registration) -> bytes:
    def block(data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + data

    lines = [
        f"{topic.topicName} {topic.readQueueNums} {topic.writeQueueNums} {topic.perm} SINGLE_TAG".encode()
        for topic in said.topics.values()
    ]
    parts = [block(msgspec.json.encode(said.data_version)), len(lines).to_bytes(4, "big"), *map(block, lines)]
    parts += [block(msgspec.json.encode(said.filter_servers)), len(said.queue_mappings).to_bytes(4, "big")]
    parts += [block(javajson.dumps(mapping)) for mapping in said.queue_mappings.values()]
    return zlib.compress(b"".join(parts))


@given(registrations)
def test_registrations_compressed(said: Registration) -> None:
    said.topics = {name: topic for name, topic in said.topics.items() if " " not in name}  # as Java's separator demands
    assert decode_registration(_deflated(said), versions.V5_5_0, compressed=True) == said


names = st.text("abcXYZ_-%0123456789", min_size=1, max_size=20)


@given(
    st.lists(names, min_size=150, max_size=200, unique=True),
    st.lists(st.tuples(names, st.integers(1, 9)), max_size=4),
    st.integers(0, 3),
)
def test_changes_read_by_the_index_equal_the_whole(old: list[str], changes: list[tuple[str, int]], where: int) -> None:
    """Whatever is added or changed, before and after together are what the whole decoder reads."""
    before = {name: TopicConfig(name, 8, 8, 6) for name in old}
    index = RegistrationIndex.of(encode_registration(Registration(topics=before)))
    after = dict(before)
    for name, queues in changes:
        after[name] = TopicConfig(name, queues, queues, 6)
    for name in old[where * 40 : where * 40 + where]:
        after[name] = TopicConfig(name, 1, 2, 4)
    read = index.read_changes(encode_registration(Registration(topics=after))) if index is not None else None
    if read is not None:
        assert {**before, **read.topics} == after


routes = st.builds(
    TopicRoute,
    queues=st.dictionaries(text, st.builds(QueueSettings, int32, int32, int32, int32), max_size=3),
    brokers=st.lists(
        st.builds(BrokerGroup, text, text, st.dictionaries(int64, text, max_size=3), st.none() | text, st.booleans()),
        max_size=3,
    ),
    filter_servers=st.dictionaries(text, st.lists(text, max_size=2), max_size=2),
    queue_mappings=st.none() | st.dictionaries(text, mappings, max_size=2),
    order_conf=st.none() | text,
)


@given(routes, st.booleans())
def test_routes_in_both_dialects(route: TopicRoute, standard: bool) -> None:
    assert decode_route(encode(topic_route(route), standard)) == route


@given(st.dictionaries(text, text, max_size=4), st.binary(max_size=20), text, some_text)
def test_signatures(fields: dict[str, str], body: bytes, access_key: str, secret_key: str) -> None:
    assert is_signed_with(signed(fields, body, access_key, secret_key), body, secret_key)
