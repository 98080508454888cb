"""Which properties the column `properties` carries. Pure.

By default those that say something no other column says: not the unique id, keys and tags, and not that a message
waits for the store, which is so unless it says otherwise. A schema may be marked as one whose column has all of them.
"""

from __future__ import annotations

from typing import Any, Final

from apogeemq.model import properties as names

OF_COLUMNS: Final = frozenset((names.UNIQUE_KEY, names.KEYS, names.TAGS))
WAIT: Final = names.WAIT
WAITS: Final = "true"
_MARK: Final = {b"apogeemq.properties": b"all"}  # not part of what makes two schemas equal


def with_all_properties(schema: Any) -> Any:
    """A schema like this, marked."""
    return schema.with_metadata(_MARK)


def has_all_properties(schema: Any) -> bool:
    return bool(schema.metadata == _MARK)


def is_carried(name: str, value: str) -> bool:
    return name not in OF_COLUMNS and not (name == WAIT and value == WAITS)
