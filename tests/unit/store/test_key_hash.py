"""The hash of `topic#key`, put together from pieces, is Java's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from apogeemq.filter.tags import java_hash
from apogeemq.store import key_hash as module
from apogeemq.store.key_hash import TopicKeys

topics = st.text(max_size=40)
unique_keys = st.text("0123456789ABCDEF", min_size=32, max_size=32)


def plain(topic: str, key: str) -> int:
    value = abs(java_hash(f"{topic}#{key}"))
    return value if value < 2**31 else 0


@given(topics, st.lists(unique_keys, min_size=1, max_size=5))
def test_of_unique_keys(topic: str, keys: list[str]) -> None:
    of_topic = TopicKeys(topic)
    for key in keys:
        assert of_topic.hash(key) == of_topic.hash(key) == plain(topic, key)


@given(topics, st.text(max_size=64) | st.text(min_size=32, max_size=32) | st.text("é😀a", min_size=31, max_size=33))
def test_of_any_keys(topic: str, key: str) -> None:
    of_topic = TopicKeys(topic)
    assert of_topic.hash(key) == of_topic.hash(key) == plain(topic, key)


def test_keys_that_share_pieces_with_others() -> None:
    for number in range(3000):
        key = f"7F0000010FA018B4AAC2{number * 7919:08X}{number * 31 & 0xFFFF:04X}"
        assert TopicKeys(f"topic-{number % 3}").hash(key) == plain(f"topic-{number % 3}", key)


def test_a_long_key() -> None:
    assert TopicKeys("T").hash("x" * 5000) == plain("T", "x" * 5000)


def test_a_hash_that_has_no_absolute_value_in_java_is_0() -> None:
    assert java_hash("T#197664kox") == -(2**31)
    assert TopicKeys("T").hash("197664kox") == 0


def test_what_is_remembered_is_bounded() -> None:
    for number in range(module._MAX_REMEMBERED + 100):
        TopicKeys("T").hash(f"{number:032d}"[::-1])
    assert len(module._heads) <= module._MAX_REMEMBERED
    assert TopicKeys("T").hash("0" * 32) == plain("T", "0" * 32)
