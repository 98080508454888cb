"""From an expression to a subscription. Pure."""

from __future__ import annotations

from typing import Final

from apogeemq.errors import BadExpression
from apogeemq.filter.tags import java_hash
from apogeemq.model.subscriptions import EVERY_TAG, TAG, SubscriptionData

TAG_SEPARATOR: Final = "||"
MAX_EXPRESSION_LENGTH: Final = 64 * 1024

_JAVA_SPACE = "".join(map(chr, range(0x21)))  # what `String.trim` takes off


def subscription_of(
    topic: str, expression: str | None, expression_type: str | None = TAG, sub_version: int = 0
) -> SubscriptionData:
    """As clients and brokers both make it. Nothing or `*` wants everything; BadExpression for what is no expression."""
    if expression is not None and len(expression) > MAX_EXPRESSION_LENGTH:
        raise BadExpression(f"the expression is longer than {MAX_EXPRESSION_LENGTH} characters")
    if not is_tag_type(expression_type):
        if not expression:
            raise BadExpression(f"Expression can't be null! {expression_type}")
        return SubscriptionData(
            topic=topic, sub_string=expression, expression_type=expression_type or TAG, sub_version=sub_version
        )
    if not expression or expression == EVERY_TAG:
        return SubscriptionData(topic=topic, sub_version=sub_version)
    tags = split_tags(expression)
    return SubscriptionData(
        topic=topic,
        sub_string=expression,
        tags_set=tags,
        code_set=frozenset(map(java_hash, tags)),
        sub_version=sub_version,
    )


def is_tag_type(expression_type: str | None) -> bool:
    """A type that is not said is TAG."""
    return not expression_type or expression_type == TAG


def split_tags(expression: str) -> frozenset[str]:
    """The tags between `||`. Blank ones do not count; separators alone are an error, as in Java."""
    parts = expression.split(TAG_SEPARATOR)
    if not any(parts):
        raise BadExpression("subString split error")
    return frozenset(tag for part in parts if (tag := part.strip(_JAVA_SPACE)))
