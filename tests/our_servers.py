"""A name server and a broker of ours as processes, for programs that know nothing but an address."""

from __future__ import annotations

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
