"""A batch of bodies as Arrow rows, on executors."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

import pyarrow as pa

from apogeemq.spark.pipeline.bodies import avro, protobuf

_KEPT_READERS: Final = 32


def avro_rows(schema: str, row: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    """Null for a body that is not what the schema says."""

    def rows(bodies: pa.Array) -> pa.Array:
        return _rows(bodies, _avro_reader(schema), row)

    return rows


def protobuf_rows(descriptor_set: bytes, message: str, row: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    """Null for a body that is no such message."""

    def rows(bodies: pa.Array) -> pa.Array:
        return _rows(bodies, _protobuf_reader(descriptor_set, message), row)

    return rows


# A worker process serves many tasks: it parses a schema once.
@lru_cache(_KEPT_READERS)
def _avro_reader(schema: str) -> Callable[[bytes], object]:
    return avro.reader_of(schema)


@lru_cache(_KEPT_READERS)
def _protobuf_reader(descriptor_set: bytes, message: str) -> Callable[[bytes], object]:
    return protobuf.reader_of(descriptor_set, message)


def _rows(bodies: pa.Array, read: Callable[[bytes], object], row: pa.DataType) -> pa.Array:
    values = [None if body is None else _value(body, read) for body in bodies.to_pylist()]
    try:
        return pa.array(values, row)
    except (pa.ArrowException, OverflowError, ValueError):  # one of them is out of the range of its column
        return pa.array([value if _fits(value, row) else None for value in values], row)


def _value(body: bytes, read: Callable[[bytes], object]) -> object:
    try:
        return read(body)
    except Exception:  # there is no end of ways in which bytes are not what a schema says
        return None


def _fits(value: object, row: pa.DataType) -> bool:
    try:
        pa.array([value], row)
    except (pa.ArrowException, OverflowError, ValueError):
        return False
    return True
