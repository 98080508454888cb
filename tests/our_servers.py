"""A name server and a broker of ours as processes, for programs that know nothing but an address."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.peers.ours import Broker, NameServer


@contextmanager
def our_servers(folder: Path) -> Iterator[str]:
    """The address of the name server, once the broker has registered."""
    with (
        NameServer(work_dir=folder / "names") as names,
        Broker(names.address, work_dir=folder / "broker-a"),
    ):
        yield names.address


def complaints(errors: str) -> str:
    """What a program wrote to stderr, when it is about the program. A busy machine may be late for a server and say so:
    such a line of a log fails nobody."""
    return errors if re.search(r"Traceback|Warning|Exception|Fatal|Error", errors) else ""
