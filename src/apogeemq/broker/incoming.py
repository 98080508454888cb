"""From the properties a producer sent to those that are stored, and what the store must know of them. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from apogeemq.filter.tags import java_hash
from apogeemq.model import properties as names
from apogeemq.model.delays import DelayLevels, level_of
from apogeemq.model.properties import decode_properties, encode_properties
from apogeemq.model.topics import SCHEDULE_TOPIC


class Accepted(NamedTuple):
    properties: dict[str, str]
    encoded: bytes
    unique_key: str


class PropertyRules:
    """What this broker adds to every message."""

    def __init__(self, region: str, trace_on: bool, cluster: str) -> None:
        self._added = {
            names.REGION: region,
            names.TRACE_ON: "true" if trace_on else "false",
            names.CLUSTER: cluster,
        }
        self._added_text = encode_properties(self._added)

    def accept(self, text: str, new_unique_key: Callable[[], str]) -> Accepted:
        """Entries that say nothing are dropped, what is the broker's to say is said by it."""
        properties = decode_properties(text)
        unique_key = properties.get(names.UNIQUE_KEY)
        count = len(properties)
        if (
            unique_key is not None
            and text[-1] == names.VALUE_END
            and text.count(names.VALUE_END) == count == text.count(names.NAME_END)
            and names.POP_CHECK_POINT not in properties
            and names.REGION not in properties
            and names.TRACE_ON not in properties
            and names.CLUSTER not in properties
        ):
            return Accepted(properties, (text + self._added_text).encode(), unique_key)
        properties.pop(names.POP_CHECK_POINT, None)
        if unique_key is None:
            unique_key = properties[names.UNIQUE_KEY] = new_unique_key()
        properties.update(self._added)
        return Accepted(properties, encode_properties(properties).encode(), unique_key)


def tags_code(topic: str, properties: dict[str, str], store_time: int, delays: DelayLevels) -> int:
    """Of a message's queue entry: the hash of its tag, or for a delayed one the time it is due."""
    if topic == SCHEDULE_TOPIC:
        level = level_of(properties.get(names.DELAY))
        if level > 0:
            return store_time + delays.delay_ms(level)
    tags = properties.get(names.TAGS)
    return java_hash(tags) if tags else 0
