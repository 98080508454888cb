"""Name servers in the event loop behind blocking calls: their journals are at hand, and read over the network."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from apogeemq.blocking.background import background_loop
from apogeemq.nameserver.changes import TOPIC_ADDED, Change
from apogeemq.nameserver.journal import Journal
from apogeemq.nameserver.server import NameServer
from tests.unit.name_servers import name_server


class Served(NamedTuple):
    server: NameServer
    address: str
    stop: Callable[[], None]

    @property
    def journal(self) -> Journal:
        assert self.server.registry.journal is not None
        return self.server.registry.journal

    def happen(self, count: int) -> None:
        """So many events more, of topics that are numbered as they are."""
        first = self.journal.next_sequence
        changes = [Change(TOPIC_ADDED, "test", "c", "b", topic=f"T{first + index}") for index in range(count)]
        self.journal.append(changes, 1_700_000_000_000)


StartNameServer = Callable[..., Served]


@pytest.fixture
def start_name_server(tmp_path: Path) -> Iterator[StartNameServer]:
    numbers = itertools.count()
    with ExitStack() as stack:

        def start(folder: Path | None = None, **properties: str) -> Served:
            serving = name_server(folder or tmp_path / f"names-{next(numbers)}", properties)
            server, address = background_loop().run(serving.__aenter__)
            once = ExitStack()
            once.callback(lambda: background_loop().run(lambda: serving.__aexit__(None, None, None)))
            stack.push(once)
            return Served(server, address, once.close)

        yield start
