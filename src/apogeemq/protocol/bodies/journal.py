"""A line of the route journal, in the file and on the wire; docs/formats/route-journal.md is its description."""

from __future__ import annotations

import msgspec


class JournalLine(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    seq: int
    time: int  # milliseconds since 1970
    kind: str
    cause: str
    cluster: str
    broker: str
    broker_id: int | None = None
    address: str | None = None
    topic: str | None = None
    read_queues: int | None = None
    write_queues: int | None = None
    perm: int | None = None
    sys_flag: int | None = None
    topic_count: int | None = None
