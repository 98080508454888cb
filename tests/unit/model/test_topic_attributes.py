"""How a request changes the attributes of a topic."""

from __future__ import annotations

import pytest

from apogeemq.model.topic_attributes import altered, parse_changes


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        (None, {}),
        ("", {}),
        ("+message.type=FIFO", {"+message.type": "FIFO"}),
        ("+a=1,-b,+c=x=y", {"+a": "1", "-b": "", "+c": "x=y"}),
    ],
)
def test_changes_are_read(text: str | None, changes: dict[str, str]) -> None:
    assert parse_changes(text) == changes


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a=1", "add/alter attribute format is wrong: a"),
        ("a", "delete attribute format is wrong: a"),
        ("+a", r"delete attribute format is wrong: \+a"),
        ("+a=1,+a=2", r"key duplication: \+a"),
        ("+a=" + "x" * 5000, "attributes of 5003 characters are longer than 4096"),
    ],
)
def test_changes_that_are_none(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{problem}$"):
        parse_changes(text)


def test_new_topic_takes_what_is_set() -> None:
    assert altered(None, {"+message.type": "NORMAL", "+queue.type": "BatchCQ"}) == {
        "message.type": "NORMAL",
        "queue.type": "BatchCQ",
    }


def test_changes_leave_the_rest_as_it_is() -> None:
    current = {"message.type": "NORMAL", "reserve.time": "5", "queue.type": "SimpleCQ"}
    changed = altered(current, {"+message.type": "FIFO", "-reserve.time": "", "+lite.topic.expiration": "-1"})
    assert changed == {"message.type": "FIFO", "queue.type": "SimpleCQ", "lite.topic.expiration": "-1"}
    assert current["message.type"] == "NORMAL"


@pytest.mark.parametrize(
    ("current", "changes", "problem"),
    [
        (None, {"-message.type": ""}, "only add attribute is supported while creating topic. key: message.type"),
        (None, {"+no.such": "1"}, "unsupported key: no.such"),
        (None, {"+": "1"}, "kv string format wrong."),
        (None, {"++a": "1"}, "kv string format wrong."),
        ({}, {"-message.type": ""}, "attempt to delete a nonexistent key: message.type"),
        ({}, {"*message.type": ""}, "wrong format key: message.type"),
        ({"message.type": "FIFO"}, {"+message.type": "NORMAL", "-message.type": ""}, "alter duplication key"),
        ({}, {"+queue.type": "BatchCQ"}, "attempt to update an unchangeable attribute. key: queue.type"),
        ({"queue.type": "BatchCQ"}, {"-queue.type": ""}, "attempt to update an unchangeable attribute"),
        (None, {"+queue.type": "x"}, r"value is not in set: [SimpleCQ, BatchCQ]"),
        (None, {"+reserve.time": "-2"}, "value is not in range(-1, 9223372036854775807)"),
        (None, {"+reserve.time": "soon"}, "value is not in range(-1, 9223372036854775807)"),
    ],
)
def test_changes_that_cannot_be(current: dict[str, str] | None, changes: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError) as caught:
        altered(current, changes)
    assert str(caught.value).startswith(problem)
