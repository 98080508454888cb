"""What a broker's scenario is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.golden.steps import JAVA_5_5_0


@dataclass(frozen=True)
class Ask:
    """Send a request and keep its answer.

    With `until_…` the same request is repeated until the answer is so, for effects that come a moment later (Apache
    fills its consume queues and index behind the send); only the last answer is kept. `on` names the connection; one
    whose name begins with "vip" goes to the second port.

    In fields and bodies `{offset:STEP}`, `{id:STEP}` and `{key:STEP}` stand for what the send STEP was answered:
    the record's place in the log, its message id, its unique key. `{now}` is the time, `{port}` the broker's port.
    """

    name: str
    code: int
    fields: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    version: int = JAVA_5_5_0
    binary: bool = False
    one_way: bool = False
    later: bool = False
    """Do not wait: an `Answer` step of the same name does."""
    raw_header: str | None = None
    """With OPAQUE in place of the number."""
    on: str = "client"
    until_code: int | None = None
    until_fields: Mapping[str, str] = field(default_factory=dict)
    until_body: bytes | None = None
    brief: bool = False
    """Keep of the records only how many and which they are."""


@dataclass(frozen=True)
class Answer:
    """Wait for the answer of an earlier `Ask` that was not waited for."""

    name: str


@dataclass(frozen=True)
class Push:
    """Wait for the next request that the broker itself sends on a connection."""

    name: str
    on: str
    code: int


@dataclass(frozen=True)
class Close:
    """Close a connection."""

    on: str


Step = Ask | Answer | Push | Close


@dataclass(frozen=True)
class Scenario:
    """Steps against one fresh broker, registered with one fresh name server."""

    name: str
    about: str
    steps: Sequence[Step]
    properties: Mapping[str, str] = field(default_factory=dict)
