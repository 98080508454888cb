"""What a Spark under measurement is asked to do, and what it answers: one JSON object a line."""

from __future__ import annotations

from typing import Literal

import msgspec

READY = "@@ready"
ANSWER = "@@"

Action = Literal["noop", "count"]


class Read(msgspec.Struct, tag="read", kw_only=True):
    """All that is there, in one batch."""

    format: str
    options: dict[str, str]
    action: Action = "noop"


class Stream(msgspec.Struct, tag="stream", kw_only=True):
    """All that is there, as a stream with the trigger AvailableNow; `checkpoint` is a new folder."""

    format: str
    options: dict[str, str]
    checkpoint: str
    action: Action = "noop"


class Write(msgspec.Struct, tag="write", kw_only=True):
    """`rows` rows made of the column `id` (0, 1, …) by SQL expressions, from `partitions` tasks."""

    format: str
    options: dict[str, str]
    columns: list[str]
    rows: int
    partitions: int = 2


class Copy(msgspec.Struct, tag="copy", kw_only=True):
    """What one source reads, into files of another format, so that both can be scanned."""

    format: str
    options: dict[str, str]
    to_format: str
    path: str


class CreateKafkaTopic(msgspec.Struct, tag="create-kafka-topic", kw_only=True):
    server: str
    topic: str
    partitions: int


Job = Read | Stream | Write | Copy | CreateKafkaTopic


class Answer(msgspec.Struct, kw_only=True):
    """`rows` is None where Spark does not count them; `batch_ms` has the time of every micro-batch."""

    rows: int | None = None
    seconds: float = 0.0
    batch_ms: list[float] = []
    problem: str = ""
