"""The fixed script: what is asked of every broker, as data."""

from __future__ import annotations

from tests.golden.broker.scenarios import (
    broker,
    clients,
    groups,
    offsets,
    pulling,
    refusing,
    returning,
    sending,
    settings,
    topics,
)
from tests.golden.broker.steps import Scenario

ALL: tuple[Scenario, ...] = (
    sending.SENDING,
    sending.BATCHES,
    sending.LYING_BATCHES,
    sending.LYING_SIZES,
    sending.AUTO_CREATED,
    sending.NOT_AUTO_CREATED,
    refusing.REFUSED_SENDS,
    refusing.SIZES,
    refusing.PROPERTIES,
    refusing.RETRY_SENDS,
    pulling.PULLING,
    pulling.REFUSED_PULLS,
    pulling.SUBSCRIBED,
    pulling.HELD,
    pulling.PULL_LIMITS,
    offsets.QUEUE_OFFSETS,
    offsets.GROUP_OFFSETS,
    offsets.RESETS,
    offsets.ODD_OFFSETS,
    clients.CLIENTS,
    clients.ODD_HEARTBEATS,
    clients.LOCKS,
    clients.RUNNING_INFO,
    returning.DELAYS,
    returning.SENT_BACK,
    returning.QUERIES,
    topics.TOPICS,
    topics.ODD_TOPICS,
    topics.TOPIC_STATUS,
    groups.GROUPS,
    groups.ODD_GROUPS,
    groups.CONSUME_STATUS,
    broker.BROKER,
    settings.SETTINGS,
    settings.ORDER_TOPICS,
    broker.READ_ONLY,
    broker.ASSIGNMENTS,
    broker.UNKNOWN,
)

BY_NAME = {scenario.name: scenario for scenario in ALL}
assert len(BY_NAME) == len(ALL), "two scenarios have one name"
