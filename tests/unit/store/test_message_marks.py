"""Tags and keys of messages, told from properties that were not decoded, are those of decoded ones."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from apogeemq.filter.tags import java_hash
from apogeemq.model.properties import decode_properties
from apogeemq.store.key_hash import TopicKeys
from apogeemq.store.layout import HASHED_KEY
from apogeemq.store.message_marks import BatchMarks, index_keys

unique_keys = st.builds(lambda number: f"7F0000010FA018B4AAC2{number:012X}", st.integers(0, 2**40)) | st.text(
    "0123456789ABCDEF", min_size=31, max_size=33
)
odd_texts = st.text("AKEYSTG_UNIQ\x01\x02é😀 ", max_size=40)
names = st.sampled_from(["UNIQ_KEY", "KEYS", "TAGS", "MYKEYS", "XTAGS", "WAIT", "NOT_UNIQ_KEY", ""])
entries = st.builds(lambda name, value: f"{name}\x01{value}\x02", names, unique_keys | odd_texts)
usual = st.builds(lambda key, tag: f"UNIQ_KEY\x01{key}\x02WAIT\x01true\x02TAGS\x01{tag}\x02", unique_keys, odd_texts)
properties = usual | st.lists(entries | odd_texts, max_size=5).map("".join)


@given(st.text(max_size=20), st.lists(properties, max_size=8))
@example("T", ["UNIQ_KEY\x01" + "A" * 32, "UNIQ_KEY\x01" + "A" * 32 + "\x02", "UNIQ_KEY\x01" + "A" * 32 + "B\x02"])
@example("T", ["TAGS\x01a\x02UNIQ_KEY\x01" + "A" * 32 + "\x02TAGS\x01b\x02"])
@example("T", ["UNIQ_KEY\x01" + "A" * 32 + "\x02UNIQ_KEY\x01" + "B" * 32 + "\x02"])
@example("T", ["UNIQ_KEY\x01" + "A" * 32 + "\x02", "UNIQ_KEY\x01" + "A" * 28 + "\x02ABC\x02"])
@example("T", ["UNIQ_KEY\x01" + "A" * 31 + "é\x02", "UNIQ_KEY\x01" + "A" * 33 + "\x02"])
@example("T", ["TAGS\x01\x02UNIQ_KEY\x01" + "A" * 32 + "\x02", "xTAGS\x01t\x02UNIQ_KEY\x01" + "A" * 32 + "\x02"])
def test_of_a_batch(topic: str, batch: list[str]) -> None:
    of_topic = TopicKeys(topic)
    marks = BatchMarks(of_topic)
    hashed_keys = BytesWriter()
    codes = [marks.add(text.encode(), number, hashed_keys) for number, text in enumerate(batch)]
    decoded = [decode_properties(text) for text in batch]
    hashes = [(of_topic.hash(key), number) for number, one in enumerate(decoded) for key in index_keys(one)]
    assert codes == [java_hash(one.get("TAGS", "")) for one in decoded]
    assert list(HASHED_KEY.iter_unpack(hashed_keys.getvalue())) == hashes


def test_a_hash_that_has_no_absolute_value_in_java_is_0() -> None:
    """Whether the message is the first of its batch, or told from the one before."""
    key = lowest_hash_key()
    assert java_hash(f"T#{key}") == -(2**31)
    assert TopicKeys("T").hash(key) == 0
    marks, hashed_keys = BatchMarks(TopicKeys("T")), BytesWriter()
    for offset in (7, 8):
        marks.add(f"UNIQ_KEY\x01{key}\x02".encode(), offset, hashed_keys)
    assert hashed_keys.getvalue() == HASHED_KEY.pack(0, 7) + HASHED_KEY.pack(0, 8)


def lowest_hash_key() -> str:
    """32 characters; the last seven are digits of the rest to the base 31, each a character of its own."""
    head = "A" * 25
    rest = (2**31 - (java_hash(f"T#{head}") * 31**7) - sum(65 * 31**power for power in range(7))) % 2**32
    digits = []
    for _ in range(7):
        rest, digit = divmod(rest, 31)
        digits.append(chr(65 + digit))
    return head + "".join(reversed(digits))


def test_keys_a_message_is_indexed_by() -> None:
    assert index_keys({"UNIQ_KEY": "u", "KEYS": "a  b ", "TAGS": "t"}) == ["u", "a", "b"]
    assert index_keys({"UNIQ_KEY": "u"}) == ["u"]
    assert index_keys({"KEYS": "a"}) == ["a"]
    assert index_keys({"KEYS": " "}) == index_keys({"KEYS": ""}) == index_keys({}) == []
