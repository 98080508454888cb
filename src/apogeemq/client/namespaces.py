"""Namespaces: tenants of one cluster, told apart by what stands before the names of their topics and groups. Pure."""

from __future__ import annotations

from apogeemq.model.groups import is_system_group
from apogeemq.model.topics import DEAD_LETTER_PREFIX, RETRY_PREFIX, is_system_topic

SEPARATOR = "%"


def with_namespace(name: str, namespace: str) -> str:
    """`NS%name`; after the prefix of retry and dead letter topics. Names of the system stay as they are."""
    if not namespace or not name or is_system_topic(name) or is_system_group(name):
        return name
    prefix = _prefix(name)
    rest = name.removeprefix(prefix)
    return name if rest.startswith(f"{namespace}{SEPARATOR}") else f"{prefix}{namespace}{SEPARATOR}{rest}"


def without_namespace(name: str, namespace: str) -> str:
    prefix = _prefix(name)
    return prefix + name.removeprefix(prefix).removeprefix(f"{namespace}{SEPARATOR}") if namespace else name


def _prefix(name: str) -> str:
    return next((prefix for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX) if name.startswith(prefix)), "")
