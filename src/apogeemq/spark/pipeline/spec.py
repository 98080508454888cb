"""What a pipeline file says, as values: frozen, typed, without Spark.

`reading.py` makes them from TOML text, `validation.py` checks them against each other. Each part knows the `line` of
its table, so that whatever is wrong with it later can still be said with a place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final

import msgspec

# Formats that are streams unless the file says otherwise; all others are tables unless it does.
TOPICS: Final = "rocketmq"
STREAM_FORMATS: Final = frozenset((TOPICS, "rocketmq-routes"))
OWN_FORMATS: Final = frozenset((*STREAM_FORMATS, "rocketmq-store"))
SOURCE_COORDINATES: Final = ("topic", "broker", "queue_id", "queue_offset")
"""The columns that together name one message of a cluster."""

MALFORMED_RULE: Final = "malformed"
DEAD_LETTERS: Final = "dead_letters"
"""The table, and the name of the sink that it is: of its part of the checkpoint, too."""


class SinkKind(StrEnum):
    TOPIC = "topic"
    PARQUET = "parquet"
    JSON = "json"
    CSV = "csv"
    ORC = "orc"
    DELTA = "delta"
    CONSOLE = "console"
    JDBC = "jdbc"


FILE_KINDS: Final = frozenset((SinkKind.PARQUET, SinkKind.JSON, SinkKind.CSV, SinkKind.ORC))


class OutputMode(StrEnum):
    """Which rows of a result a sink is given: new final ones, changed ones, or all of them each time."""

    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"


class BodyFormat(StrEnum):
    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"


class Malformed(StrEnum):
    """What becomes of a body that is not what the schema says."""

    DEAD_LETTER = "dead-letter"
    FAIL = "fail"
    KEEP = "keep"


class Action(StrEnum):
    """What becomes of a row that breaks a quality rule."""

    DEAD_LETTER = "dead-letter"
    FAIL = "fail"
    COUNT = "count"


class Watermark(msgspec.Struct, frozen=True):
    column: str
    delay: str


class Trigger(msgspec.Struct, frozen=True):
    """None: everything there is now, then the end. Else an epoch each so many milliseconds; 0: one after the other."""

    interval_ms: int | None = None

    @property
    def is_bounded(self) -> bool:
        return self.interval_ms is None

    def __str__(self) -> str:
        return "available-now" if self.interval_ms is None else f"{self.interval_ms} milliseconds"


class Decode(msgspec.Struct, frozen=True, kw_only=True):
    """How the bytes of a column become a struct."""

    format: BodyFormat
    schema: str  # DDL or Spark's JSON form (json), Avro's JSON (avro); for protobuf the path of a descriptor set
    message: str = ""  # protobuf: the full name of the message
    column: str = "body"
    into: str = "value"
    skip_bytes: int = 0
    malformed: Malformed = Malformed.DEAD_LETTER
    options: Mapping[str, str] = {}
    line: int = 0

    @property
    def is_rule(self) -> bool:
        """Whether rows whose body is not what the schema says break a rule, which has the name MALFORMED_RULE."""
        return self.malformed is not Malformed.KEEP


class Source(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    format: str
    is_stream: bool
    path: str = ""
    schema: str = ""
    options: Mapping[str, str] = {}
    decode: Decode | None = None
    watermark: Watermark | None = None
    line: int = 0


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A view made by SQL or by a Python function; exactly one of the two is given."""

    name: str
    sql: str = ""
    python: str = ""
    inputs: tuple[str, ...] = ()  # the views it reads; of SQL, as found in its text
    options: Mapping[str, object] = {}
    watermark: Watermark | None = None
    line: int = 0


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    view: str
    rules: Mapping[str, str]
    action: Action = Action.DEAD_LETTER
    line: int = 0


class Sink(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    view: str
    kind: SinkKind
    mode: OutputMode = OutputMode.APPEND
    topic: str = ""
    path: str = ""
    partition_by: tuple[str, ...] = ()
    id_columns: tuple[str, ...] = ()
    options: Mapping[str, str] = {}
    line: int = 0


class PipelineSpec(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str = ""
    file: str = ""
    checkpoint: str = ""  # empty: in the state folder
    trigger: Trigger = Trigger()
    py_files: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    spark_conf: Mapping[str, str] = {}
    sources: Mapping[str, Source]
    steps: Mapping[str, Step] = {}  # in an order in which each comes after what it reads
    quality: Mapping[str, Quality] = {}
    dead_letters: Sink | None = None
    sinks: Mapping[str, Sink]

    @property
    def is_streaming(self) -> bool:
        return any(source.is_stream for source in self.sources.values())


def streams_of(spec: PipelineSpec, view: str) -> Iterator[Source]:
    """The streaming sources whose rows come to a view."""
    if view in spec.sources:
        if spec.sources[view].is_stream:
            yield spec.sources[view]
        return
    found = (source for name in spec.steps[view].inputs for source in streams_of(spec, name))
    yield from {source.name: source for source in found}.values()
