"""Names of topics, and how a topic is shown."""

from __future__ import annotations

import pytest

from apogeemq.model.topics import (
    MAX_GROUP_TOPIC_LENGTH,
    MAX_TOPIC_LENGTH,
    TopicConfig,
    could_be_stored,
    dead_letter_topic,
    described,
    is_system_topic,
    is_writable,
    perm_text,
    retry_topic,
    topic_problem,
)


@pytest.mark.parametrize(
    "name",
    [
        "T",
        "a-b_c|d%e",
        "%RETRY%group",
        "t" * MAX_TOPIC_LENGTH,
        "%RETRY%".ljust(MAX_GROUP_TOPIC_LENGTH, "g"),
        "%DLQ%".ljust(MAX_GROUP_TOPIC_LENGTH, "g"),
    ],
)
def test_names_that_are_allowed(name: str) -> None:
    assert topic_problem(name) is None


@pytest.mark.parametrize("name", [None, "", " ", "\t\n"])
def test_blank_names(name: str | None) -> None:
    assert topic_problem(name) == "The specified topic is blank."


@pytest.mark.parametrize(
    "name",
    [".", "..", "../x", "a/b", "a\\b", "T\n", "T\0", "a b", "a.b", "T@G", "é", "Ｔ", "٣", "a\ud800", "%RETRY%../x"],
)
def test_no_name_leaves_its_folder_or_breaks_a_line(name: str) -> None:
    assert topic_problem(name) == (
        f"The specified topic: {name}, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    )


def test_names_that_are_too_long() -> None:
    name = "t" * (MAX_TOPIC_LENGTH + 1)
    assert topic_problem(name) == f"The specified topic: {name}, is longer than topic max length: 127"
    for prefix in ("%RETRY%", "%DLQ%"):
        name = prefix.ljust(MAX_GROUP_TOPIC_LENGTH + 1, "g")
        assert topic_problem(name) == (
            f"The specified topic is DLQ or Retry topic: {name}, and it's longer than topic max length: 255"
        )


def test_names_that_brokers_may_have_stored() -> None:
    for name in ("T", "%RETRY%group+topic", "é", "a b", "t" * MAX_GROUP_TOPIC_LENGTH):
        assert could_be_stored(name.encode()), name
    for name in ("", " ", "T\0", "T\n", "T\x7f", "t" * (MAX_GROUP_TOPIC_LENGTH + 1), "é" * 128):
        assert not could_be_stored(name.encode()), name


def test_topics_of_groups() -> None:
    assert retry_topic("G") == retry_topic("%RETRY%G") == "%RETRY%G"
    assert dead_letter_topic("G") == "%DLQ%G"


def test_system_topics_by_name() -> None:
    assert is_system_topic("TBW102")
    assert is_system_topic("rmq_sys_anything")
    assert not is_system_topic("T")
    assert not is_system_topic("%RETRY%TOOLS_CONSUMER")


@pytest.mark.parametrize(
    ("perm", "text", "writable"),
    [(6, "RW-", True), (7, "RWX", True), (4, "R--", False), (2, "-W-", True), (0, "---", False)],
)
def test_permissions(perm: int, text: str, writable: bool) -> None:
    assert perm_text(perm) == text
    assert is_writable(perm) is writable


def test_a_topic_is_described_in_apaches_words() -> None:
    topic = TopicConfig(
        topic_name="T", read_queue_nums=4, write_queue_nums=8, order=True, attributes={"a": "1", "b": "2"}
    )
    assert described(topic) == (
        "TopicConfig [topicName=T, readQueueNums=4, writeQueueNums=8, perm=RW-, topicFilterType=SINGLE_TAG, "
        "topicSysFlag=0, order=true, attributes={a=1, b=2}]"
    )
