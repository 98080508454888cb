"""The topics of a consumer and what it wants of them; both may change while it runs."""

from __future__ import annotations

from collections.abc import Mapping

from apogeemq.client.namespaces import with_namespace
from apogeemq.errors import ConfigError
from apogeemq.filter.subscriptions import subscription_of
from apogeemq.model.subscriptions import EVERY_TAG, SubscriptionData
from apogeemq.model.topics import retry_topic, topic_problem
from apogeemq.runtime.clock import now_ms


class Subscriptions:
    """By the names brokers know. A group that shares its queues has its retry topic as well."""

    def __init__(self, group: str, wanted: Mapping[str, str], namespace: str, *, has_retries: bool) -> None:
        self._namespace = namespace
        self._retry_topic = retry_topic(group)
        self._table: dict[str, SubscriptionData] = {}
        for topic, expression in wanted.items():
            self.add(topic, expression)
        if has_retries:
            self.add(self._retry_topic, EVERY_TAG)

    def add(self, topic: str, expression: str) -> str:
        """Gives the name brokers know the topic by. Raises BadExpression, ConfigError."""
        if problem := topic_problem(topic):
            raise ConfigError(f"subscription: {problem}")
        name = with_namespace(topic, self._namespace)
        before = self._table.get(name)
        # Of two subscriptions brokers keep the one with the larger version.
        version = max(now_ms(), before.sub_version + 1 if before is not None else 0)
        self._table[name] = subscription_of(name, expression, sub_version=version)
        return name

    def remove(self, topic: str) -> str | None:
        """None when it was not there."""
        name = with_namespace(topic, self._namespace)
        return name if name != self._retry_topic and self._table.pop(name, None) is not None else None

    def get(self, topic: str) -> SubscriptionData | None:
        return self._table.get(topic)

    def __contains__(self, topic: str) -> bool:
        return topic in self._table

    @property
    def all(self) -> list[SubscriptionData]:
        return list(self._table.values())

    @property
    def topics(self) -> list[str]:
        return list(self._table)

    @property
    def own_topics(self) -> list[str]:
        """Those the program asked for."""
        return [topic for topic in self._table if topic != self._retry_topic]
