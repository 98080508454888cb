"""The route table with its consequences.

Handlers change the table and hand each outcome to `apply`, the one place where a change becomes a journal line, a
dropped answer, a woken watcher, a notice to brokers and a snapshot that is out of date.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from apogeemq.model.routes import TopicRoute
from apogeemq.nameserver.changes import MinIdNotice, Outcome
from apogeemq.nameserver.config import NameServerConfig
from apogeemq.nameserver.journal import Journal
from apogeemq.nameserver.kv_config import KvConfig
from apogeemq.nameserver.route_cache import RouteCache
from apogeemq.nameserver.route_queries import find_route
from apogeemq.nameserver.route_table import RouteTable
from apogeemq.nameserver.watching import RouteWatchers

log = logging.getLogger(__name__)

_LOGGED_CHANGES = 20  # of one operation; the journal has them all


class Registry:
    def __init__(
        self,
        config: NameServerConfig,
        kv: KvConfig,
        journal: Journal | None,
        *,
        send_notice: Callable[[MinIdNotice], None],
        close_connection: Callable[[int], None],
        wall_clock: Callable[[], float] = time.time,
        monotonic_clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config = config
        self.kv = kv
        self.journal = journal
        self.table = RouteTable()
        self.cache = RouteCache(self._find_route, config.route_cache_bytes)
        self.watchers = RouteWatchers(self.cache.digest)
        self.is_snapshot_stale = False
        self._send_notice = send_notice
        self._close_connection = close_connection
        self._wall_clock = wall_clock
        self._monotonic_clock = monotonic_clock

    def now_ms(self) -> int:
        """For deadlines: a clock nobody sets."""
        return int(self._monotonic_clock() * 1000)

    def apply(self, outcome: Outcome) -> None:
        if outcome.changes:
            self.is_snapshot_stale = True
            self._log(outcome)
            if self.journal is not None:
                self.journal.append(outcome.changes, int(self._wall_clock() * 1000))
        if outcome.topics:
            self.topics_changed(outcome.topics)
        if outcome.notices and self.config.notify_min_broker_id_changed:
            for notice in outcome.notices:
                self._send_notice(notice)
        for connection in outcome.connections_to_close:
            self._close_connection(connection)

    def topics_changed(self, topics: set[str]) -> None:
        self.cache.forget(topics)
        self.watchers.topics_changed(topics)

    def config_changed(self, config: NameServerConfig) -> None:
        """Settings decide what a route looks like, so every answer is out of date."""
        self.config = config
        self.cache.clear()
        self.watchers.topics_changed(set(self.table.topics))

    def _find_route(self, topic: str) -> TopicRoute | None:
        route = find_route(self.table, topic, support_acting_master=self.config.support_acting_master)
        if route is not None and (self.config.order_message_enable or self.config.cluster_test):
            route.order_conf = self.kv.order_conf(topic)
        return route

    def _log(self, outcome: Outcome) -> None:
        for change in outcome.changes[:_LOGGED_CHANGES]:
            where = change.topic or change.address or ""
            log.info("%s %s %s/%s (%s)", change.kind, where, change.cluster, change.broker, change.cause)
        if len(outcome.changes) > _LOGGED_CHANGES:
            log.info("… and %d more changes", len(outcome.changes) - _LOGGED_CHANGES)
