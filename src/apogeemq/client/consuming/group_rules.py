"""What a consumer's group may be called, and the words members describe themselves with. Pure."""

from __future__ import annotations

from typing import Final

from apogeemq.errors import ConfigError
from apogeemq.model.groups import group_problem
from apogeemq.model.subscriptions import CONSUME_FROM_WHERE, MESSAGE_MODELS

DEFAULT_GROUP: Final = "DEFAULT_CONSUMER"

_FROM_LAST, _FROM_FIRST, _FROM_TIME = CONSUME_FROM_WHERE[0], CONSUME_FROM_WHERE[4], CONSUME_FROM_WHERE[5]


def checked_group(group: str) -> str:
    if group == DEFAULT_GROUP:
        raise ConfigError(f"the group {DEFAULT_GROUP} is reserved; give your consumers a name of their own")
    if problem := group_problem(group):
        raise ConfigError(f"consumer group: {problem}")
    return group


def from_where(start_from: str | int) -> str:
    return {"last": _FROM_LAST, "first": _FROM_FIRST}.get(str(start_from), _FROM_TIME)


def message_model(*, is_broadcasting: bool) -> str:
    return MESSAGE_MODELS[0 if is_broadcasting else 1]
