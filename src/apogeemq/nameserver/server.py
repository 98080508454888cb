"""The composition root: which parts a name server is made of, and their life."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from apogeemq.errors import RequestRefused
from apogeemq.nameserver.changes import MinIdNotice
from apogeemq.nameserver.config import NameServerConfig, ServerSettings
from apogeemq.nameserver.handlers.brokers import BrokerHandlers
from apogeemq.nameserver.handlers.route_changes import RouteChangeHandlers
from apogeemq.nameserver.handlers.route_questions import AskProduct, RouteHandlers
from apogeemq.nameserver.handlers.settings import SettingsHandlers
from apogeemq.nameserver.handlers.watch import WatchHandlers
from apogeemq.nameserver.journal import Journal
from apogeemq.nameserver.kv_config import KvConfig
from apogeemq.nameserver.live_config import LiveConfig
from apogeemq.nameserver.registry import Registry
from apogeemq.nameserver.warm_start import SnapshotKeeper
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.runtime.alarm_clock import AlarmClock
from apogeemq.runtime.folder_lock import FolderLock
from apogeemq.runtime.tasks import Tasks
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher
from apogeemq.transport.flow import Limits
from apogeemq.transport.server import Server
from apogeemq.transport.tls import TlsServerContexts, TlsSettings

if TYPE_CHECKING:  # parts that cost memory are imported when they are needed
    from apogeemq.nameserver.outward import Outward
    from apogeemq.runtime.status_http import StatusServer

log = logging.getLogger(__name__)

_KV_LOG_SECONDS = 600
_STOP_GRACE_SECONDS = 5.0


class NameServer:
    """Made, started and stopped on one event loop; several may live in one process."""

    def __init__(self, settings: ServerSettings, environment: Mapping[str, str]) -> None:
        config = settings.config
        self.settings = settings
        self._environment = environment
        self.dispatcher = Dispatcher()
        tls = TlsSettings.from_properties(settings.tls)
        self._tls = TlsServerContexts(tls.server_mode, tls)
        self.server = Server(self.dispatcher, _limits(config), tls=self._tls, on_closed=self._channel_closed)
        self._outward: Outward | None = None
        self.snapshots = SnapshotKeeper(settings.data_dir) if config.warm_start else None
        self.registry = Registry(
            config,
            KvConfig(Path(config.kv_config_path)),
            None,
            send_notice=self._send_notice,
            close_connection=self._close_connection,
        )
        self._lock = FolderLock(settings.data_dir)
        self.access_refusals: Callable[[], int] = lambda: 0
        self._status: StatusServer | None = None
        self._clock = AlarmClock()
        self._tasks = Tasks(self._clock.sleep)
        self._is_serving = False
        self._is_stopping = False

    # -- life ------------------------------------------------------------------------------------------------

    async def start(self) -> tuple[str, int]:
        """Everything is ready when this returns: the address given accepts connections."""
        config, registry = self.settings.config, self.registry
        self._lock.acquire()
        registry.kv.load()
        sequence = self._restore_routes()
        if config.journal_enable:
            registry.journal = Journal(
                self.settings.data_dir / "journal", config.journal_file_size, config.journal_file_count, sequence + 1
            )
        self._install_handlers()
        address = self.server.start(config.bind_address, config.listen_port, config.server_socket_backlog)
        self._is_serving = True
        self._tasks.repeat(lambda: 1.0, self._tick)
        self._tasks.repeat(lambda: registry.config.scan_not_active_broker_interval / 1000, self._expire)
        self._tasks.repeat(lambda: _KV_LOG_SECONDS, self._log_kv)
        if (snapshots := self.snapshots) is not None:
            self._tasks.repeat(snapshots.pause_seconds, lambda: snapshots.save_if_stale(registry))
        self._tasks.spawn(self._tls.watch())
        return address

    def start_status(self, host: str, port: int) -> tuple[str, int]:
        """Metrics, health and routes over HTTP."""
        from apogeemq.nameserver.status import status_pages
        from apogeemq.runtime.status_http import StatusServer

        self._status = StatusServer(status_pages(self))
        return self._status.start(host, port)

    async def stop(self) -> None:
        """Finish what was taken. Brokers are not removed by our own going: the snapshot keeps them.

        To be called after a start that failed, too.
        """
        was_serving, self._is_stopping = self._is_serving and not self._is_stopping, True
        config = self.registry.config
        if config.enable_shutdown_gracefully and was_serving:
            self.dispatcher.is_going_away = True
            await asyncio.sleep(config.shutdown_wait_time_seconds)
        self.server.stop_accepting()
        self.registry.watchers.release_all()
        await self.server.stop(_STOP_GRACE_SECONDS)
        await self._tasks.cancel_all()
        self._clock.close()
        if self.snapshots is not None:
            await self.snapshots.save_if_stale(self.registry)
        if self._status is not None:
            await self._status.stop()
        if self._outward is not None:
            await self._outward.close()
        if self.registry.journal is not None:
            self.registry.journal.close()
        self._lock.release()

    def _restore_routes(self) -> int:
        """Gives the last journal number the snapshot knows."""
        if self.snapshots is None:
            return 0
        return self.snapshots.restore(self.registry, self.settings.config.warm_start_seconds * 1000)

    def _install_handlers(self) -> None:
        config, registry, dispatcher = self.settings.config, self.registry, self.dispatcher
        ask_product: AskProduct | None = self._outward_calls().ask_product if config.cluster_test else None
        RouteHandlers(registry, ask_product).install(dispatcher)
        BrokerHandlers(registry).install(dispatcher)
        RouteChangeHandlers(registry).install(dispatcher)
        WatchHandlers(registry).install(dispatcher)
        SettingsHandlers(registry, LiveConfig(self.settings, self._config_changed)).install(dispatcher)
        if config.acl_enable or config.admin_loopback_only:
            self._install_access_check(config)
        if config.need_wait_for_service:
            dispatcher.before.append(_refuse_routes)
            loop = asyncio.get_running_loop()
            loop.call_later(config.wait_seconds_for_service, dispatcher.before.remove, _refuse_routes)

    def _install_access_check(self, config: NameServerConfig) -> None:
        from apogeemq.nameserver.access import AccessCheck, load_accounts

        accounts = load_accounts(Path(config.acl_accounts_file)) if config.acl_enable else None
        check = AccessCheck(accounts, config.acl_open_reads, config.admin_loopback_only)
        self.access_refusals = lambda: check.refused_count
        self.dispatcher.before.append(check)

    # -- what happens on a clock -----------------------------------------------------------------------------

    def _tick(self) -> None:
        self.server.tick()
        if self._outward is not None:
            self._outward.tick()

    def _expire(self) -> None:
        self.registry.apply(self.registry.table.expire(self.registry.now_ms()))

    def _log_kv(self) -> None:
        table = self.registry.kv.table
        log.info("KV table: %d namespaces", len(table))
        for namespace, values in table.items():
            for key, value in values.items():
                log.info("KV %s %s=%s", namespace, key, value)

    # -- consequences ----------------------------------------------------------------------------------------

    def _channel_closed(self, channel: Channel) -> None:
        if not self._is_stopping:
            self.registry.apply(self.registry.table.connection_closed(channel.number))

    def _close_connection(self, connection: int) -> None:
        for channel in tuple(self.server.channels):
            if channel.number == connection:
                channel.abort()

    def _send_notice(self, notice: MinIdNotice) -> None:
        self._tasks.spawn(self._outward_calls().notify(notice))

    def _outward_calls(self) -> Outward:
        if self._outward is None:
            from apogeemq.nameserver.outward import Outward

            self._outward = Outward(self.settings.config, self._environment)
        return self._outward

    def _config_changed(self, config: NameServerConfig) -> None:
        self.server.limits = _limits(config)
        self.registry.config_changed(config)


def _limits(config: NameServerConfig) -> Limits:
    return Limits(
        max_frame_size=config.max_frame_size,
        max_held=config.max_held_requests,
        max_connections=config.max_connections,
        idle_seconds=config.server_channel_max_idle_time_seconds,
        partial_frame_seconds=config.partial_frame_seconds,
        first_byte_seconds=config.server_channel_max_idle_time_seconds,
    )


def _refuse_routes(channel: Channel, command: Command) -> None:
    if command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, "name server not ready")
