"""Keeps every name server told of this broker and its topics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from apogeemq.broker.config import BrokerConfig
from apogeemq.broker.outward import Outward
from apogeemq.broker.services.name_server_link import NameServerLink, NameServerState
from apogeemq.broker.services.registration_bodies import RegistrationBodies, Snapshot
from apogeemq.model.topics import TopicConfig
from apogeemq.transport.broker_registration import BrokerIdentity, BrokerRegistration

log = logging.getLogger(__name__)

_FIRST_PERIOD_SECONDS: Final = 10  # as Apache's brokers
_START_SECONDS: Final = 3.0  # the most a start waits for name servers that are slow or gone
_START_GRACE_SECONDS: Final = 0.5  # for the others, once one has answered
_UNREGISTER_SECONDS: Final = 3.0


class Registration:
    """One link per name server, each at its own pace: one that is down delays nobody.

    The owner calls `tick` once a second, after the outward's own, and `stop` before it closes the outward.
    """

    def __init__(
        self,
        outward: Outward,
        identity: BrokerIdentity,
        snapshot: Snapshot,
        config: Callable[[], BrokerConfig],
        on_order_topics: Callable[[Mapping[str, str]], None],
        now_ms: Callable[[], int],
    ) -> None:
        self._outward = outward
        self._identity = identity
        self._config = config
        self._on_order_topics = on_order_topics
        self._now_ms = now_ms
        self._bodies = RegistrationBodies(identity.name, snapshot, config)
        self._links: dict[str, NameServerLink] = {}
        self._seconds_to_next = float(_FIRST_PERIOD_SECONDS)
        self._is_stopping = False

    @property
    def states(self) -> list[NameServerState]:
        """How it stands with each name server, for metrics."""
        return [link.state for link in self._links.values()]

    # -- life ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Register with all; a name server that cannot be had is tried again and again, later."""
        self._outward.on_connection_lost = self._connection_lost
        await self._outward.find_name_servers()
        self._follow_the_list()
        if not self._outward.has_name_servers:
            log.info("no name server is configured; clients must know this broker by its address")
            return
        await self._first_answers()
        if not any(state.is_registered for state in self.states):
            log.warning("no name server has taken this broker yet; it goes on trying")

    async def stop(self) -> None:
        """Unregister where it is registered, within a time."""
        self._is_stopping = True
        await asyncio.gather(*(link.cancel() for link in self._links.values()))
        try:
            async with asyncio.timeout(_UNREGISTER_SECONDS):
                await asyncio.gather(*(link.unregister() for link in self._links.values()))
        except TimeoutError:
            log.warning("not every name server answered the farewell in %g s", _UNREGISTER_SECONDS)

    async def _first_answers(self) -> None:
        loop = asyncio.get_running_loop()
        waiting = {asyncio.ensure_future(link.attempted.wait()) for link in self._links.values()}
        give_up_at = loop.time() + _START_SECONDS
        has_answer = False
        while waiting and loop.time() < give_up_at:
            _, waiting = await asyncio.wait(
                waiting, timeout=give_up_at - loop.time(), return_when=asyncio.FIRST_COMPLETED
            )
            if not has_answer and any(state.is_registered for state in self.states):
                has_answer = True
                give_up_at = min(give_up_at, loop.time() + _START_GRACE_SECONDS)
        for task in waiting:
            task.cancel()

    # -- what happens ----------------------------------------------------------------------------------------

    def topics_changed(self, topics: list[TopicConfig]) -> None:
        """These are new or different, and the data version is a new one."""
        names = {topic.topic_name for topic in topics}
        if names and not self._is_stopping:
            for link in self._links.values():
                link.tell_of(names)

    def register_soon(self) -> None:
        """Everything anew, to all: for a change that concerns every topic."""
        if not self._is_stopping:
            for link in self._links.values():
                link.tell_all()

    def tick(self) -> None:
        """One second has passed."""
        if self._is_stopping:
            return
        self._bodies.forget()
        self._follow_the_list()
        self._seconds_to_next -= 1
        is_due = self._seconds_to_next <= 0
        config = self._config()
        if is_due:
            self._seconds_to_next = config.register_period_seconds
        for link in self._links.values():
            if is_due and config.force_register:
                link.tell_all()
            elif is_due:
                link.compare()
            link.tick()

    def _connection_lost(self, address: str) -> None:
        link = self._links.get(address)
        if link is not None and not self._is_stopping:
            link.connection_lost()

    def _follow_the_list(self) -> None:
        addresses = self._outward.name_servers
        if addresses == tuple(self._links):
            return
        for address in self._links.keys() - set(addresses):
            self._links.pop(address).leave()
        for address in addresses:
            if address not in self._links:
                self._links[address] = self._new_link(address)
                self._links[address].tell_all()

    def _new_link(self, address: str) -> NameServerLink:
        call = BrokerRegistration(self._outward.pool, address, self._identity)
        return NameServerLink(address, call, self._bodies, self._config, self._on_order_topics, self._now_ms)
