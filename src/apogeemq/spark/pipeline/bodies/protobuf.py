"""Protobuf messages, one a body, by a descriptor set."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from apogeemq.spark.pipeline.text.ddl import SchemaUnreadable, checked_ddl
from apogeemq.spark.quoting import quoted

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.message import Message

_Get = Callable[[Any], object]

# By the number of the type in a descriptor. Numbers without a sign get a column that holds all of them.
_PRIMITIVES: Final = {
    1: "DOUBLE",
    2: "FLOAT",
    3: "BIGINT",
    4: "DECIMAL(20, 0)",
    5: "INT",
    6: "DECIMAL(20, 0)",
    7: "BIGINT",
    8: "BOOLEAN",
    9: "STRING",
    12: "BINARY",
    13: "BIGINT",
    14: "STRING",
    15: "INT",
    16: "BIGINT",
    17: "INT",
    18: "BIGINT",
}
_UNSIGNED_64: Final = frozenset((4, 6))
_ENUM: Final = 14
_MICROSECONDS: Final = {
    "google.protobuf.Timestamp": "TIMESTAMP",
    "google.protobuf.Duration": "INTERVAL DAY TO SECOND",
}


def ddl_of(descriptor_set: bytes, message: str) -> str:
    """The columns that such a message makes. SchemaUnreadable."""
    columns = _fields(_descriptor(descriptor_set, message), ())
    checked_ddl(columns)
    return columns


def reader_of(descriptor_set: bytes, message: str) -> Callable[[bytes], object]:
    """Turns a body into a dictionary; raises whatever it will at one that is not such a message."""
    from google.protobuf.message_factory import GetMessageClass

    descriptor = _descriptor(descriptor_set, message)
    make, get = GetMessageClass(descriptor), _getter(descriptor)

    def read(body: bytes) -> object:
        parsed = make()
        parsed.ParseFromString(body)
        if not parsed.IsInitialized():
            raise ValueError("a required field is missing")
        return get(parsed)

    return read


def _descriptor(descriptor_set: bytes, message: str) -> Descriptor:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import DecodeError

    pool, files = DescriptorPool(), FileDescriptorSet()
    try:
        files.ParseFromString(descriptor_set)
        for file in files.file:
            pool.AddSerializedFile(file.SerializeToString())
    except (DecodeError, TypeError) as error:
        reason = f"not a whole descriptor set (protoc --include_imports --descriptor_set_out): {error}"
        raise SchemaUnreadable(reason) from None
    try:
        return pool.FindMessageTypeByName(message)
    except KeyError:
        names = [name for file in files.file for name in _names(file.package, file.message_type)]
        near = get_close_matches(message, names, 1)
        hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(sorted(names)[:10]) or 'none at all'}"
        raise SchemaUnreadable(f"there is no message {message}; {hint}") from None


def _names(outer: str, messages: Any) -> list[str]:
    names = []
    for message in messages:
        name = f"{outer}.{message.name}".lstrip(".")
        names += [name, *_names(name, message.nested_type)]
    return names


def _fields(descriptor: Descriptor, within: tuple[str, ...]) -> str:
    if descriptor.full_name in within:
        raise SchemaUnreadable(f"the message {descriptor.full_name} contains itself")
    if not descriptor.fields:
        raise SchemaUnreadable(f"the message {descriptor.full_name} has no fields")
    within = (*within, descriptor.full_name)
    return ", ".join(f"{quoted(field.name)}: {_column(field, within)}" for field in descriptor.fields)


def _column(field: FieldDescriptor, within: tuple[str, ...]) -> str:
    if (entry := _map_entry(field)) is not None:
        key, value = (entry.fields_by_name[name] for name in ("key", "value"))
        return f"MAP<{_single(key, within)}, {_single(value, within)}>"
    single = _single(field, within)
    return f"ARRAY<{single}>" if field.is_repeated else single


def _single(field: FieldDescriptor, within: tuple[str, ...]) -> str:
    inner = field.message_type
    if inner is None:
        return _PRIMITIVES[field.type]
    return _MICROSECONDS.get(inner.full_name) or f"STRUCT<{_fields(inner, within)}>"


def _map_entry(field: FieldDescriptor) -> Descriptor | None:
    inner = field.message_type
    return inner if inner is not None and inner.GetOptions().map_entry else None


def _getter(descriptor: Descriptor) -> _Get:
    """A field that knows whether it is there and is not: null. Any other: its value or its default."""
    wanted = [(field.name, field.has_presence, _field_getter(field)) for field in descriptor.fields]

    def get(message: Message) -> dict[str, object]:
        return {
            name: None if knows and not message.HasField(name) else value(getattr(message, name))
            for name, knows, value in wanted
        }

    return get


def _field_getter(field: FieldDescriptor) -> _Get:
    if (entry := _map_entry(field)) is not None:
        key, value = (_single_getter(entry.fields_by_name[name]) for name in ("key", "value"))
        return lambda found: [(key(name), value(found[name])) for name in found]
    single = _single_getter(field)
    return (lambda found: [single(item) for item in found]) if field.is_repeated else single


def _single_getter(field: FieldDescriptor) -> _Get:
    if field.message_type is not None:
        if field.message_type.full_name in _MICROSECONDS:
            return lambda moment: moment.seconds * 1_000_000 + moment.nanos // 1_000
        return _getter(field.message_type)
    if field.type == _ENUM:
        known = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda number: known.get(number) or str(number)
    return Decimal if field.type in _UNSIGNED_64 else _same


def _same(value: object) -> object:
    return value
