"""The topics a consumer wants."""

from __future__ import annotations

import pytest

from apogeemq.client.consuming.subscribing import Subscriptions
from apogeemq.errors import BadExpression, ConfigError


def test_a_group_that_shares_has_its_retry_topic_as_well() -> None:
    shared = Subscriptions("G", {"T": "a || b"}, "", has_retries=True)
    assert (shared.topics, shared.own_topics) == (["T", "%RETRY%G"], ["T"])
    assert Subscriptions("G", {"T": "*"}, "", has_retries=False).topics == ["T"]
    found = shared.get("T")
    assert found is not None and found.tags_set == {"a", "b"}
    assert "T" in shared and "U" not in shared and shared.get("U") is None


def test_a_new_expression_has_a_larger_version() -> None:
    """Of two, brokers keep the larger."""
    subscriptions = Subscriptions("G", {"T": "a"}, "", has_retries=True)
    versions = []
    for _ in range(5):
        assert subscriptions.add("T", "b") == "T"
        versions.append(subscriptions.get("T").sub_version)  # type: ignore[union-attr]
    assert versions == sorted(set(versions))
    assert len(subscriptions.all) == 2


def test_removing() -> None:
    subscriptions = Subscriptions("G", {"T": "a", "U": "*"}, "", has_retries=True)
    assert (subscriptions.remove("T"), subscriptions.remove("T"), subscriptions.remove("%RETRY%G")) == ("T", None, None)
    assert subscriptions.topics == ["U", "%RETRY%G"]


def test_namespaces() -> None:
    subscriptions = Subscriptions("NS%G", {"T": "*"}, "NS", has_retries=True)
    assert subscriptions.topics == ["NS%T", "%RETRY%NS%G"]
    assert subscriptions.own_topics == ["NS%T"]
    assert subscriptions.remove("T") == "NS%T"


@pytest.mark.parametrize(
    ("topic", "expression", "error"), [("", "*", ConfigError), ("a b", "*", ConfigError), ("T", "||", BadExpression)]
)
def test_what_cannot_be_wanted(topic: str, expression: str, error: type[Exception]) -> None:
    subscriptions = Subscriptions("G", {"T": "a"}, "", has_retries=False)
    with pytest.raises(error):
        subscriptions.add(topic, expression)
    assert [(one.topic, one.sub_string) for one in subscriptions.all] == [("T", "a")]
