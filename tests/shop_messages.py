"""One order in Avro and in Protobuf: schemas, and bodies made by the formats' own libraries."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp

AVRO_ORDER = json.dumps(
    {
        "type": "record",
        "name": "shop.Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "product", "type": "string"},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }
)

ORDER_MESSAGE = "shop.Order"


def avro_body(schema: str, record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema)), record)
    return out.getvalue()


def descriptor_set() -> bytes:
    """As `protoc --include_imports` writes it, of a file with every kind of field."""
    kinds = FieldDescriptorProto
    file = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.extend(("google/protobuf/timestamp.proto", "google/protobuf/duration.proto"))
    state = file.enum_type.add(name="State")
    state.value.add(name="OPEN", number=0)
    state.value.add(name="PAID", number=1)
    line = file.message_type.add(name="Line")
    line.field.add(name="product", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    line.field.add(name="count", number=2, type=kinds.TYPE_UINT32, label=kinds.LABEL_OPTIONAL)
    order = file.message_type.add(name="Order")
    single = [
        ("id", kinds.TYPE_INT64, ""),
        ("serial", kinds.TYPE_UINT64, ""),
        ("price", kinds.TYPE_DOUBLE, ""),
        ("blob", kinds.TYPE_BYTES, ""),
        ("state", kinds.TYPE_ENUM, ".shop.State"),
        ("first", kinds.TYPE_MESSAGE, ".shop.Line"),
        ("at", kinds.TYPE_MESSAGE, ".google.protobuf.Timestamp"),
        ("took", kinds.TYPE_MESSAGE, ".google.protobuf.Duration"),
    ]
    for number, (name, kind, type_name) in enumerate(single, 1):
        field = order.field.add(name=name, number=number, type=kind, label=kinds.LABEL_OPTIONAL)
        if type_name:
            field.type_name = type_name
    order.field.add(
        name="lines", number=20, type=kinds.TYPE_MESSAGE, type_name=".shop.Line", label=kinds.LABEL_REPEATED
    )
    _add_map(order)
    file.message_type.add(name="Tree").field.add(
        name="child", number=1, type=kinds.TYPE_MESSAGE, type_name=".shop.Tree", label=kinds.LABEL_OPTIONAL
    )
    file.message_type.add(name="Nothing")
    whole = FileDescriptorSet()
    for part in (Timestamp, Duration):
        part.DESCRIPTOR.file.CopyToProto(whole.file.add())
    whole.file.append(file)
    content: bytes = whole.SerializeToString()
    return content


def _add_map(order: DescriptorProto) -> None:
    kinds = FieldDescriptorProto
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=kinds.TYPE_INT32, label=kinds.LABEL_OPTIONAL)
    order.field.add(
        name="counts",
        number=21,
        type=kinds.TYPE_MESSAGE,
        type_name=".shop.Order.CountsEntry",
        label=kinds.LABEL_REPEATED,
    )


def protobuf_body(**fields: Any) -> bytes:
    pool, files = DescriptorPool(), FileDescriptorSet.FromString(descriptor_set())
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
    body: bytes = GetMessageClass(pool.FindMessageTypeByName(ORDER_MESSAGE))(**fields).SerializeToString()
    return body
