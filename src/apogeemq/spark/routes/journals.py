"""What the processes of a Spark job ask of name servers about their journals."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Final

from apogeemq.admin.nameserver import JournalPage, NameServerAdmin
from apogeemq.blocking.background import background_loop
from apogeemq.errors import ApogeeError, EventsLost, RemoteRefused
from apogeemq.protocol.bodies.journal import JournalLine
from apogeemq.protocol.codes import ResponseCode
from apogeemq.protocol.signing import signed
from apogeemq.spark.connection import Connection
from apogeemq.spark.routes.sequences import OLDEST, JournalBounds, JournalRange, lost
from apogeemq.transport.discovery import find_source
from apogeemq.transport.pool import ConnectionPool, SendHook
from apogeemq.transport.signing import signing_hooks
from apogeemq.transport.tls import TlsSettings, client_context

log = logging.getLogger(__name__)

PAGE_LINES: Final = 10_000
# A number is given a moment before its line can be read.
_ASK_AGAIN_SECONDS: Final = 0.1
_ASK_AGAIN_TIMES: Final = 5
_KNOWN_SECONDS: Final = 30.0  # before somebody is asked again which name servers there are


class Journals:
    """Blocking; made by `journals_of` only. Questions that fail are tried again as the connection's options say."""

    def __init__(self, connection: Connection, pool: ConnectionPool) -> None:
        self._connection = connection
        self._pool = pool
        self._known: list[str] = []
        self._known_at = 0.0

    def name_servers(self) -> list[str]:
        """Those that the option stands for. NoNameServer when there are none."""
        if not self._known or time.monotonic() - self._known_at > _KNOWN_SECONDS:
            self._known = background_loop().run(find_source(self._connection.name_server, os.environ).fetch)
            self._known_at = time.monotonic()
        return self._known

    def bounds(
        self, name_servers: Iterable[str], *, is_patient: bool = True
    ) -> tuple[dict[str, JournalBounds], dict[str, ApogeeError]]:
        """Of each journal; and why those of which nothing is known did not answer. Asked once, if not patient."""
        asked = list(name_servers)
        ask = self._page if is_patient else self._ask_for_page

        async def ask_all() -> list[JournalPage | BaseException]:
            return await asyncio.gather(*(ask(name, 1, 1) for name in asked), return_exceptions=True)

        found: dict[str, JournalBounds] = {}
        failed: dict[str, ApogeeError] = {}
        for name, answer in zip(asked, background_loop().run(ask_all), strict=True):
            if isinstance(answer, JournalPage):
                found[name] = JournalBounds(answer.first_sequence, answer.last_sequence + 1)
            elif isinstance(answer, ApogeeError):
                failed[name] = answer
            else:
                raise answer
        return found, failed

    def read(self, wanted: JournalRange, *, fail_on_data_loss: bool) -> Iterator[list[JournalLine]]:
        """The events of a range in order, some at a time. EventsLost when some are gone and that counts."""
        position, tries = wanted.start, 0
        while position < wanted.end:
            page = background_loop().run(lambda: self._page(wanted.name_server, max(position, 1), PAGE_LINES))  # noqa: B023
            if position != OLDEST:
                _look_for_loss(wanted.name_server, position, page, fail_on_data_loss=fail_on_data_loss)
            lines = [line for line in page.entries() if position <= line.seq < wanted.end]
            if lines:
                yield lines
                position, tries = lines[-1].seq + 1, 0
            elif page.lines:  # what follows is after the end
                return
            elif tries == _ASK_AGAIN_TIMES or page.last_sequence + 1 < wanted.end:
                _tell_of_gap(wanted, position, page, fail_on_data_loss=fail_on_data_loss)
                return
            else:
                tries += 1
                background_loop().run(lambda: asyncio.sleep(_ASK_AGAIN_SECONDS))

    async def _page(self, name_server: str, start: int, most: int) -> JournalPage:
        for delay in self._connection.retry_delays():
            try:
                return await self._ask_for_page(name_server, start, most)
            except ApogeeError as error:
                if not _may_pass(error):
                    raise
                log.warning("%s; trying again in %g s", error, delay)
            await asyncio.sleep(delay)
        return await self._ask_for_page(name_server, start, most)

    async def _ask_for_page(self, name_server: str, start: int, most: int) -> JournalPage:
        admin = NameServerAdmin(self._pool, name_server, timeout_seconds=self._connection.request_timeout_ms / 1000)
        return await admin.read_journal(start, most)


def _look_for_loss(name_server: str, start: int, page: JournalPage, *, fail_on_data_loss: bool) -> None:
    problem = lost(name_server, start, JournalBounds(page.first_sequence, page.last_sequence + 1))
    if problem is not None:
        if fail_on_data_loss:
            raise EventsLost(problem)
        log.warning("%s", problem)


def _tell_of_gap(wanted: JournalRange, position: int, page: JournalPage, *, fail_on_data_loss: bool) -> None:
    """Numbers that were given and have no line: the name server could not write it, or its journal was cut."""
    problem = f"the route journal of {wanted.name_server} has no events {max(position, 1)} to {wanted.end - 1}"
    if page.last_sequence + 1 < wanted.end and fail_on_data_loss:
        raise EventsLost(problem)
    log.warning("%s", problem)


def _may_pass(error: ApogeeError) -> bool:
    """A journal that is turned off stays so, which a name server says as a failure of its own."""
    return error.retriable and not (isinstance(error, RemoteRefused) and error.code == ResponseCode.SYSTEM_ERROR)


_journals: dict[Connection, Journals] = {}
_making = threading.Lock()


def journals_of(connection: Connection) -> Journals:
    """With the connections that this process keeps."""
    with _making:
        found = _journals.get(connection)
        if found is None:
            background = background_loop()
            pool = background.run(lambda: _open_pool(connection))
            background.opened(pool.close)
            found = _journals[connection] = Journals(connection, pool)
        return found


def _leave_to_parent() -> None:
    """A forked child has none of its parent's threads and must not use its sockets."""
    global _journals, _making
    _journals, _making = {}, threading.Lock()


os.register_at_fork(after_in_child=_leave_to_parent)


async def _open_pool(connection: Connection) -> ConnectionPool:
    tls = TlsSettings.from_properties(dict(connection.tls))
    return ConnectionPool(
        tls=client_context(tls) if tls.client_enabled else None,
        connect_timeout_seconds=connection.connect_timeout_ms / 1000,
        before_send=_signers(connection),
    )


def _signers(connection: Connection) -> list[SendHook]:
    if not connection.access_key:
        return signing_hooks(os.environ)
    return [
        lambda code, fields, body: signed(
            fields, body, connection.access_key, connection.secret_key, connection.security_token
        )
    ]
