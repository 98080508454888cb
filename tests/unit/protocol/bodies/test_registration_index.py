"""Reading only what changed since the last registration gives what reading the whole would."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from apogeemq.model.routes import DataVersion
from apogeemq.protocol import versions
from apogeemq.protocol.bodies.registration import (
    Registration,
    TopicConfig,
    decode_registration,
    encode_registration,
)
from apogeemq.protocol.bodies.registration_index import RegistrationIndex


def table(names: Iterable[str], **changed: TopicConfig) -> dict[str, TopicConfig]:
    return {name: changed.get(name) or TopicConfig(name, 8, 8, 6) for name in names}


NAMES = [f"Topic{number:04}" for number in range(500)]
TABLE = table(NAMES)


def body(topics: dict[str, TopicConfig], counter: int = 1) -> bytes:
    return encode_registration(Registration(DataVersion(counter, 0, 5), topics))


def index_of(topics: dict[str, TopicConfig]) -> RegistrationIndex:
    index = RegistrationIndex.of(body(topics))
    assert index is not None
    return index


def test_nothing_changed() -> None:
    assert index_of(TABLE).read_changes(body(TABLE)) == Registration(DataVersion(1, 0, 5), {})


def test_a_new_data_version_over_the_same_topics() -> None:
    assert index_of(TABLE).read_changes(body(TABLE, counter=2)) == Registration(DataVersion(2, 0, 5), {})


@pytest.mark.parametrize("name", [NAMES[0], NAMES[1], NAMES[100], NAMES[250], NAMES[-40]])
@pytest.mark.parametrize("config", [(4, 8, 6, 0), (8, 8, 4, 0), (8, 80, 6, 0), (8, 8, 6, 3)])
def test_a_changed_topic_is_among_what_is_read(name: str, config: tuple[int, int, int, int]) -> None:
    changed = TopicConfig(name, *config)
    after = table(NAMES, **{name: changed})
    index = index_of(TABLE)
    read = index.read_changes(body(after, counter=2))
    assert read is not None
    assert read.topics[name] == changed
    assert {other: after[other] for other in read.topics} == read.topics
    assert len(read.topics) < 100
    assert index.read_changes(body(after, counter=2)) == Registration(DataVersion(2, 0, 5), {})


def test_every_single_change_is_found_or_the_whole_is_read() -> None:
    for name in NAMES:
        after = table(NAMES, **{name: TopicConfig(name, 8, 9, 6)})
        read = index_of(TABLE).read_changes(body(after))
        assert read is None or read.topics[name] == after[name]


@pytest.mark.parametrize("position", [0, 1, 250, 480])
def test_an_added_topic_is_found(position: int) -> None:
    names = [*NAMES[:position], "Added", *NAMES[position:]]
    read = index_of(TABLE).read_changes(body(table(names)))
    assert read is None or read.topics["Added"] == TopicConfig("Added", 8, 8, 6)


def test_topics_in_another_order_are_read_whole_or_right() -> None:
    reversed_table = table(reversed(NAMES))
    read = index_of(TABLE).read_changes(body(reversed_table))
    assert read is None or {**TABLE, **read.topics} == reversed_table


def test_other_parts_that_change_make_it_read_the_whole() -> None:
    said = Registration(DataVersion(1, 0, 5), TABLE, {}, ["10.0.0.1:1"])
    assert index_of(TABLE).read_changes(encode_registration(said)) is None


@pytest.mark.parametrize("text", [b"", b"{}", b"x" * 20_000, body(table(NAMES[:10])), body({})])
def test_what_is_small_or_no_registration_is_not_indexed(text: bytes) -> None:
    assert RegistrationIndex.of(text) is None
    assert index_of(TABLE).read_changes(text) is None


def test_escapes_make_it_read_the_whole() -> None:
    odd = {**TABLE, 'quo"te': TopicConfig('quo"te')}
    assert RegistrationIndex.of(body(odd)) is None
    assert index_of(TABLE).read_changes(body(odd)) is None


def test_the_whole_and_the_changes_agree() -> None:
    after = table(NAMES, Topic0100=TopicConfig("Topic0100", 1, 1, 2), Topic0400=TopicConfig("Topic0400", 3, 3, 4))
    read = index_of(TABLE).read_changes(body(after))
    assert read is not None
    whole = decode_registration(body(after), versions.V5_5_0, compressed=False)
    assert {**TABLE, **read.topics} == whole.topics
