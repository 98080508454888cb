"""Names in the SQL of Spark. Pure."""

from __future__ import annotations


def quoted(name: str) -> str:
    """A name of any characters."""
    return f"`{name.replace('`', '``')}`"
