"""A client of whichever name server answers."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping

from apogeemq.errors import ConnectFailed, ConnectionLost, NoNameServer, RequestTimedOut
from apogeemq.protocol.command import JSON, Command
from apogeemq.transport.addresses import AddressBook
from apogeemq.transport.discovery import AddressSource
from apogeemq.transport.pool import REQUEST_TIMEOUT_SECONDS, ConnectionPool

log = logging.getLogger(__name__)


class NameServerClient:
    """Sends requests to a name server that works, staying with it until it fails.

    The owner calls `tick` once a second, so that a list that can change is fetched anew, and `close` at the end.
    The pool belongs to the caller.
    """

    def __init__(
        self, pool: ConnectionPool, source: AddressSource, choose_start: Callable[[int], int] = random.randrange
    ) -> None:
        self.book = AddressBook(choose_start=choose_start)
        self._pool = pool
        self._source = source
        self._refreshing: asyncio.Task[None] | None = None
        self._seconds_since_refresh = 0
        self._failures: dict[str, str] = {}  # of addresses that did not answer when last asked
        self._is_closed = False
        self._problem = ""  # why the last attempt to fetch the list failed

    async def request(
        self,
        code: int,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout_seconds: float = REQUEST_TIMEOUT_SECONDS,
        codec: int = JSON,
    ) -> Command:
        """The answer of the first name server that gives one, whatever its code; the time is for each of them.

        Raises NoNameServer with every address that was tried and what became of it. What is sent may arrive more
        than once, as every request to a name server may.
        """
        if self.book.current is None:
            await self.refresh()
        failures = []
        for address in self.book.order():
            try:
                answer = await self._asked(address, code, fields, body, timeout_seconds, codec)
            except (ConnectFailed, ConnectionLost, RequestTimedOut) as error:
                self.book.mark_bad(address)
                self._failures[address] = str(error)
                failures.append(f"{address} ({error})")
            else:
                self._failures.pop(address, None)
                return answer
        self._refresh_in_background()  # perhaps they have moved
        raise NoNameServer(f"no name server answered: {'; '.join(failures)}")

    async def _asked(
        self,
        address: str,
        code: int,
        fields: Mapping[str, str] | None,
        body: bytes,
        timeout_seconds: float,
        codec: int,
    ) -> Command:
        """A connection may end because the server behind it was restarted; whether it is there, a new one tells. Not
        when a silent server was left for another one: that ends its connections, too."""
        now = asyncio.get_running_loop().time
        deadline = now() + timeout_seconds
        try:
            return await self._pool.request(address, code, fields, body, timeout_seconds=timeout_seconds, codec=codec)
        except ConnectionLost:
            left_seconds = deadline - now()
            if self.book.current != address or left_seconds <= 0:
                raise
            return await self._pool.request(address, code, fields, body, timeout_seconds=left_seconds, codec=codec)

    async def refresh(self) -> None:
        """Fetch the list now. Raises NoNameServer if none is known, then or from before."""
        if self._refreshing is None:
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh())
        await asyncio.shield(self._refreshing)
        if self.book.current is None:
            raise NoNameServer(f"no name server address is known: {self._problem}")

    def describe(self) -> str:
        """Every address that is known, and how it failed when it was last asked."""
        told = (f"{address} ({self._failures.get(address, 'no answer yet')})" for address in self.book.addresses)
        return "; ".join(told) or self._problem or "no address is known yet"

    def tick(self) -> None:
        """One second has passed."""
        self._seconds_since_refresh += 1
        refresh_seconds = self._source.refresh_seconds
        if refresh_seconds is not None and self._seconds_since_refresh >= refresh_seconds:
            self._refresh_in_background()

    async def close(self) -> None:
        self._is_closed = True
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.wait([self._refreshing])

    def _refresh_in_background(self) -> None:
        if self._refreshing is None and not self._is_closed and self._source.refresh_seconds is not None:
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh())

    async def _refresh(self) -> None:
        try:
            if self.book.replace(await self._source.fetch()):
                log.info("name servers: %s", "; ".join(self.book.addresses))
        except NoNameServer as error:
            self._problem = str(error)
            log.warning("no new list of name servers: %s", error)
        finally:
            self._seconds_since_refresh = 0
            self._refreshing = None
