"""From the properties a producer sent to those that are stored, and what the store must know of them. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from apogeemq.filter.tags import java_hash
from apogeemq.model import properties as names
from apogeemq.model.delays import DelayLevels, level_of
from apogeemq.model.properties import decode_properties, encode_properties
from apogeemq.model.topics import SCHEDULE_TOPIC

# What only a broker says of a message.
_RESERVED: Final = frozenset((names.POP_CHECK_POINT, names.REGION, names.TRACE_ON, names.CLUSTER))

# What asks for more than to be stored: to be delayed, or half of a transaction.
_ASKING: Final = frozenset((names.DELAY, names.TRANSACTION_PREPARED)) | names.TIMER_PROPERTIES
_UNUSUAL: Final = _RESERVED | _ASKING

# Properties, the same as they are stored, the message's unique key, and whether they ask for nothing but storing.
Accepted: TypeAlias = tuple[dict[str, str], bytes, str, bool]


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
        # As many properties as ends of properties: each entry is one, and no name comes twice.
        if (
            unique_key is not None
            and text.count(names.VALUE_END) == len(properties)
            and text[-1] == names.VALUE_END
            and _UNUSUAL.isdisjoint(properties)
        ):
            return properties, (text + self._added_text).encode(), unique_key, True
        properties.pop(names.POP_CHECK_POINT, None)
        if unique_key is None:
            unique_key = properties[names.UNIQUE_KEY] = new_unique_key()
        properties.update(self._added)
        return properties, encode_properties(properties).encode(), unique_key, _ASKING.isdisjoint(properties)


def tags_code(topic: str, properties: dict[str, str], store_time: int, delays: DelayLevels) -> int:
    """Of a message's queue entry: the hash of its tag, or for a delayed one the time it is due."""
    if topic == SCHEDULE_TOPIC:
        level = level_of(properties.get(names.DELAY))
        if level > 0:
            return store_time + delays.delay_ms(level)
    tags = properties.get(names.TAGS)
    return java_hash(tags) if tags else 0
