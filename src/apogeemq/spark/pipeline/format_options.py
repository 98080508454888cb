"""The options of our own formats, checked by those who will read them. Pure: no Spark, no network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def option_problems(form: str, options: Mapping[str, str], *, writes: bool) -> Iterator[tuple[str, str]]:
    """The option a problem is about ("" when it is about all) and the sentence; nothing for formats of others."""
    return iter(())
