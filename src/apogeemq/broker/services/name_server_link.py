"""One name server, and what it has yet to be told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from apogeemq.broker.config import BrokerConfig
from apogeemq.broker.services.registration_bodies import Body, RegistrationBodies
from apogeemq.errors import ApogeeError
from apogeemq.transport.broker_registration import BrokerRegistration, RegistrationAnswer

log = logging.getLogger(__name__)

_MAX_RETRY_SECONDS: Final = 10


class NameServerState(msgspec.Struct):
    """For metrics and people."""

    address: str
    is_registered: bool = False
    last_success_ms: int = 0
    success_count: int = 0
    failure_count: int = 0
    problem: str = ""  # of the last attempt; empty if it went well


class NameServerLink:
    """Says one thing at a time, in order, and puts together what changes meanwhile.

    Only a name server that has taken the whole table over this connection is told of single changes: any other would
    take them for the whole, or refuse.
    """

    def __init__(
        self,
        address: str,
        call: BrokerRegistration,
        bodies: RegistrationBodies,
        config: Callable[[], BrokerConfig],
        on_order_topics: Callable[[Mapping[str, str]], None],
        now_ms: Callable[[], int],
    ) -> None:
        self.state = NameServerState(address)
        self.attempted = asyncio.Event()  # set when the first attempt has ended, well or not
        self._call = call
        self._bodies = bodies
        self._config = config
        self._on_order_topics = on_order_topics
        self._now_ms = now_ms
        self._wants_all = False
        self._wants_comparison = False
        self._changed: set[str] = set()
        self._task: asyncio.Task[None] | None = None
        self._life_sign: asyncio.Task[None] | None = None
        self._retry_in_seconds = 0
        self._failures_in_a_row = 0

    # -- what it is to be told -------------------------------------------------------------------------------

    def tell_all(self) -> None:
        self._wants_all = True
        self._wake()

    def tell_of(self, topics: Iterable[str]) -> None:
        self._changed.update(topics)
        self._wake()

    def compare(self) -> None:
        """Ask whether it knows the present version, and tell all if not."""
        self._wants_comparison = True
        self._wake()

    def connection_lost(self) -> None:
        """A name server forgets a broker whose connection has ended."""
        if self.state.is_registered:
            log.warning("the connection to the name server %s is lost", self.state.address)
            self.state.is_registered = False
            self._wants_all = True
            self._retry_in_seconds = max(self._retry_in_seconds, 1)

    def tick(self) -> None:
        """One second has passed."""
        if self._retry_in_seconds > 0:
            self._retry_in_seconds -= 1
            self._wake()
        if self._config().enable_slave_acting_master and self.state.is_registered:
            self._show_life()

    # -- ends ------------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """It is no longer one of ours; it forgets us when the connection falls idle."""
        log.info("the name server %s is no longer listed", self.state.address)
        if self._task is not None:
            self._task.cancel()

    async def cancel(self) -> None:
        tasks = [task for task in (self._task, self._life_sign) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def unregister(self) -> None:
        if not self.state.is_registered:
            return
        self.state.is_registered = False
        try:
            await self._call.unregister()
            log.info("unregistered from the name server %s", self.state.address)
        except ApogeeError as error:
            log.warning("not unregistered from the name server %s: %s", self.state.address, error)

    # -- telling ---------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        has_work = self._wants_all or self._wants_comparison or self._changed
        if has_work and self._task is None and self._retry_in_seconds == 0:
            self._task = asyncio.get_running_loop().create_task(self._tell_until_done())

    async def _tell_until_done(self) -> None:
        try:
            while self._wants_all or self._wants_comparison or self._changed:
                self._call.timeout_seconds = self._config().register_broker_timeout_mills / 1000
                await self._tell_next()
        except ApogeeError as error:
            self._failed(str(error))
        except Exception as error:
            log.exception("registering with the name server %s failed", self.state.address)
            self._failed(repr(error))
        finally:
            self._task = None
            self.attempted.set()

    async def _tell_next(self) -> None:
        if self._wants_all or not self.state.is_registered:
            self._wants_all = self._wants_comparison = False
            self._changed.clear()
            body = await self._bodies.of_all()
            self._registered(await self._register(body), body)
        elif self._changed:
            names, self._changed = self._changed, set()
            if self._config().enable_single_topic_register:
                await self._tell_topic_by_topic(names)
            else:
                body = await self._bodies.of(names)
                if body.topic_count:
                    self._registered(await self._register(body), body)
        else:
            self._wants_comparison = False
            self._wants_all = await self._call.is_changed(self._bodies.data_version)
            self._succeeded()

    async def _register(self, body: Body) -> RegistrationAnswer:
        config = self._config()
        is_watched = config.enable_slave_acting_master
        return await self._call.register_body(
            body.content,
            is_compressed=body.is_compressed,
            acting_master=is_watched,
            heartbeat_timeout_ms=config.broker_not_active_timeout_millis if is_watched else None,
        )

    async def _tell_topic_by_topic(self, names: Iterable[str]) -> None:
        for name in names:
            route = self._bodies.route_of(name)
            if route is not None:
                await self._call.register_topic(name, route)
                self._succeeded()

    def _registered(self, answer: RegistrationAnswer, body: Body) -> None:
        is_news = not self.state.is_registered
        self.state.is_registered = True
        log.log(
            logging.INFO if is_news else logging.DEBUG,
            "registered with the name server %s: %d topics, version %d",
            self.state.address,
            body.topic_count,
            body.data_version.counter,
        )
        self._succeeded()
        if answer.order_topics:
            self._on_order_topics(answer.order_topics)

    def _succeeded(self) -> None:
        state = self.state
        state.last_success_ms = self._now_ms()
        state.success_count += 1
        state.problem = ""
        self._failures_in_a_row = 0

    def _failed(self, problem: str) -> None:
        """Whatever it was being told, it is told all when it answers again."""
        state = self.state
        state.is_registered = False
        state.failure_count += 1
        is_news = problem != state.problem
        state.problem = problem
        self._wants_all = True
        self._failures_in_a_row += 1
        self._retry_in_seconds = min(2 ** (self._failures_in_a_row - 1), _MAX_RETRY_SECONDS)
        log.log(
            logging.WARNING if is_news else logging.DEBUG,
            "not registered with the name server %s: %s; next attempt in %d s",
            state.address,
            problem,
            self._retry_in_seconds,
        )

    def _show_life(self) -> None:
        if self._life_sign is None or self._life_sign.done():
            self._life_sign = asyncio.get_running_loop().create_task(self._send_life_sign())

    async def _send_life_sign(self) -> None:
        config = self._config()
        try:
            await self._call.send_sign_of_life(
                self._bodies.data_version,
                as_before_5=config.compatible_with_old_name_srv,
                timeout_seconds=config.send_heartbeat_timeout_millis / 1000,
            )
        except ApogeeError as error:
            log.debug("no sign of life to the name server %s: %s", self.state.address, error)
