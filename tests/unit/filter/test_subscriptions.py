"""From expressions to subscriptions."""

from __future__ import annotations

import pytest

from apogeemq.errors import BadExpression
from apogeemq.filter.subscriptions import MAX_EXPRESSION_LENGTH, subscription_of
from apogeemq.filter.tags import java_hash
from apogeemq.model.subscriptions import SQL92, SubscriptionData


@pytest.mark.parametrize("expression", ["*", "", None])
def test_everything(expression: str | None) -> None:
    subscription = subscription_of("T", expression, sub_version=5)
    assert subscription == SubscriptionData(topic="T", sub_string="*", sub_version=5)
    assert subscription.wanted_tags is None


@pytest.mark.parametrize(
    ("expression", "tags"),
    [
        ("TagA", {"TagA"}),
        ("TagA||TagB", {"TagA", "TagB"}),
        (" TagA || TagB ||", {"TagA", "TagB"}),
        ("||TagA", {"TagA"}),
        ("TagA | TagB", {"TagA | TagB"}),
        ("a||\u00a0b", {"a", "\u00a0b"}),  # a space Java does not trim
        (" || ", set()),
    ],
)
def test_tags_between_bars(expression: str, tags: set[str]) -> None:
    subscription = subscription_of("T", expression)
    assert subscription.sub_string == expression
    assert subscription.tags_set == tags
    assert subscription.code_set == {java_hash(tag) for tag in tags}
    assert subscription.wanted_tags == subscription.code_set


def test_a_known_hash() -> None:
    assert subscription_of("T", "TagA").code_set == {2598919}


@pytest.mark.parametrize("expression", ["||", "||||", "a" * (MAX_EXPRESSION_LENGTH + 1)])
def test_no_expression(expression: str) -> None:
    with pytest.raises(BadExpression):
        subscription_of("T", expression)


def test_other_types_keep_the_expression() -> None:
    subscription = subscription_of("T", "a > 1", SQL92)
    assert subscription == SubscriptionData(topic="T", sub_string="a > 1", expression_type="SQL92")
    assert subscription.wanted_tags is None
    with pytest.raises(BadExpression):
        subscription_of("T", "", SQL92)


def test_a_type_that_is_not_said_is_tag() -> None:
    assert subscription_of("T", "A", None) == subscription_of("T", "A", "TAG")
