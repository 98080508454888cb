"""The names of a message's columns, and which of them options choose. Pure."""

from __future__ import annotations

from typing import Final

from apogeemq.spark.options import OptionReader, wrong

ALL_COLUMNS: Final = (
    "topic",
    "broker",
    "queue_id",
    "queue_offset",
    "msg_id",
    "keys",
    "tags",
    "properties",
    "body",
    "born_timestamp",
    "store_timestamp",
    "born_host",
    "reconsume_times",
    "sys_flag",
)


_PROPERTIES: Final = ("true", "false", "all")
_NONE, _ALL = _PROPERTIES[1:]


def wants_all_properties(options: OptionReader) -> bool:
    """Whether also those that have columns of their own."""
    return options.choice("includeProperties", _PROPERTIES, None) == _ALL


def chosen_columns(options: OptionReader) -> tuple[str, ...]:
    """Those of `columns`, in that order, else all; less what `includeBody` and `includeProperties` leave out."""
    named = options.names("columns", None)
    unknown = [name for name in named or () if name not in ALL_COLUMNS]
    if unknown:
        raise wrong("columns", ",".join(unknown), f"some of {', '.join(ALL_COLUMNS)}")
    columns = named or ALL_COLUMNS
    asked = options.choice("includeProperties", _PROPERTIES, None)
    has_properties = None if asked is None else asked != _NONE
    for option, column, is_included in (
        ("includeBody", "body", options.flag("includeBody", None)),
        ("includeProperties", "properties", has_properties),
    ):
        if is_included is False and named is not None and column in named:
            raise wrong(option, "false", f"true, because columns names {column}")
        if is_included is True and column not in columns:
            raise wrong(option, options.text(option, "true"), f"false, because columns does not name {column}")
        if is_included is False:
            columns = tuple(name for name in columns if name != column)
    return columns
