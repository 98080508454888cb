"""The columns of rows that become messages: which there must and may be, of which types. Pure."""

from __future__ import annotations

from typing import Final

import msgspec
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from apogeemq.errors import ConfigError
from apogeemq.spark.sink.write_options import WriteOptions

BODY: Final = "body"
TOPIC: Final = "topic"
KEYS: Final = "keys"
TAGS: Final = "tags"
PROPERTIES: Final = "properties"
SHARDING_KEY: Final = "sharding_key"
DELAY: Final = "delay"
DELIVER_AT: Final = "deliver_at"
MESSAGE_COLUMNS: Final = (BODY, TOPIC, KEYS, TAGS, PROPERTIES, SHARDING_KEY, DELAY, DELIVER_AT)

# Where a row's source message was. SOURCE_TOPIC is for rows whose `topic` says where they go.
SOURCE_TOPIC: Final = "source_topic"
BROKER: Final = "broker"
QUEUE_ID: Final = "queue_id"
QUEUE_OFFSET: Final = "queue_offset"
_PLACE: Final = (BROKER, QUEUE_ID, QUEUE_OFFSET)

_EXPECTED: Final = {
    BODY: "string or binary",
    TOPIC: "string",
    KEYS: "string or array<string>",
    TAGS: "string",
    PROPERTIES: "map<string,string>",
    SHARDING_KEY: "string",
    DELAY: "a whole number, the level",
    DELIVER_AT: "timestamp",
    SOURCE_TOPIC: "string",
    BROKER: "string",
    QUEUE_ID: "a whole number",
    QUEUE_OFFSET: "a whole number",
}
# The same value must have the same text in every run. A sum of fractions has not.
_ID_TYPES: Final = (
    *(StringType, BinaryType, BooleanType, IntegralType),
    *(DecimalType, DateType, TimestampType, TimestampNTZType),
)


class SinkColumns(msgspec.Struct, frozen=True, kw_only=True):
    """Travels to executors. `position` names the columns of topic, broker, queue and offset, where ids come from
    them."""

    present: frozenset[str]
    id_columns: tuple[str, ...] = ()
    position: tuple[str, ...] = ()


def check_columns(schema: StructType, options: WriteOptions, *, needs_ids: bool = False) -> SinkColumns:
    """ConfigError, before anything is written, unless the rows can become messages.

    With `needs_ids`, ids come from the options' columns or from where the source message was.
    """
    types = {field.name: field.dataType for field in schema.fields}
    position = _position(types, options) if needs_ids and not options.id_columns else ()
    _check_names(types, options, position)
    for name in (*MESSAGE_COLUMNS, *position):
        if name in types and not _fits(name, types[name]):
            raise ConfigError(f"column {name} is {types[name].simpleString()}: expected {_EXPECTED[name]}")
    for name in options.id_columns:
        if not _may_be_id(types[name]):
            raise ConfigError(
                f"option idColumns names {name}, which is {types[name].simpleString()}: expected columns whose values "
                "are the same in every run: texts, bytes, whole numbers, decimals, booleans, dates, timestamps or "
                "structs of them"
            )
    if options.orders_by_sharding_key and SHARDING_KEY not in types:
        raise ConfigError(f"option orderByShardingKey is true, and there is no column {SHARDING_KEY}")
    present = frozenset(name for name in MESSAGE_COLUMNS if name in types)
    if options.topic:
        present -= {TOPIC}
    return SinkColumns(present=present, id_columns=options.id_columns, position=position)


def _check_names(types: dict[str, DataType], options: WriteOptions, position: tuple[str, ...]) -> None:
    if BODY not in types:
        raise ConfigError(f"there is no column {BODY} among {', '.join(types) or 'no columns'}")
    if not options.topic and TOPIC not in types:
        raise ConfigError("nothing says where rows go: give the option topic or a column topic")
    if options.topics and TOPIC not in types:
        raise ConfigError("option topics limits the column topic, and there is none")
    missing = [name for name in options.id_columns if name not in types]
    if missing:
        raise ConfigError(f"option idColumns names {', '.join(missing)}: expected columns of {', '.join(types)}")
    extra = [name for name in types if name not in (*MESSAGE_COLUMNS, *options.id_columns, *position)]
    if extra:
        raise ConfigError(
            f"columns {', '.join(extra)} have no place in a message: expected {', '.join(MESSAGE_COLUMNS)}; "
            "put them into body or properties, or leave them out"
        )


def _position(types: dict[str, DataType], options: WriteOptions) -> tuple[str, ...]:
    """The columns that tell a row's source message; empty when they are not all there."""
    of_topic = SOURCE_TOPIC if SOURCE_TOPIC in types else TOPIC if options.topic else ""
    names = (of_topic, *_PLACE)
    return names if all(name in types for name in names) else ()


def _fits(name: str, kind: DataType) -> bool:
    if name == BODY:
        return isinstance(kind, StringType | BinaryType)
    if name == KEYS:
        return isinstance(kind, StringType) or (
            isinstance(kind, ArrayType) and isinstance(kind.elementType, StringType)
        )
    if name == PROPERTIES:
        return (
            isinstance(kind, MapType)
            and isinstance(kind.keyType, StringType)
            and isinstance(kind.valueType, StringType)
        )
    if name in (DELAY, QUEUE_ID, QUEUE_OFFSET):
        return isinstance(kind, IntegralType)
    if name == DELIVER_AT:
        return isinstance(kind, TimestampType)
    return isinstance(kind, StringType)


def _may_be_id(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return bool(kind.fields) and all(_may_be_id(field.dataType) for field in kind.fields)
    return isinstance(kind, _ID_TYPES)
