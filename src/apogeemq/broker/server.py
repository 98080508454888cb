"""The composition root: which parts a broker is made of, and their life."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Set
from datetime import date, datetime
from ipaddress import ip_address
from typing import TYPE_CHECKING

from apogeemq.broker.administration import install_administration
from apogeemq.broker.config import FAST_PORT_STEP, BrokerConfig, ServerSettings
from apogeemq.broker.figures.runtime_info import RuntimeParts
from apogeemq.broker.handlers.clients import ClientHandlers
from apogeemq.broker.handlers.locks import LockHandlers
from apogeemq.broker.handlers.offsets import OffsetHandlers
from apogeemq.broker.handlers.pull import PullHandlers
from apogeemq.broker.handlers.queries import QueryHandlers
from apogeemq.broker.handlers.relays import RelayHandlers
from apogeemq.broker.handlers.send import SendHandlers
from apogeemq.broker.handlers.send_back import SendBackHandlers
from apogeemq.broker.incoming import tags_code
from apogeemq.broker.kept_tables import SAVE_CHECK_SECONDS, KeptTables
from apogeemq.broker.live_config import LiveConfig
from apogeemq.broker.outward import Outward
from apogeemq.broker.promises import FlushPromises
from apogeemq.broker.putting import Putter
from apogeemq.broker.registration import Registration
from apogeemq.broker.services.delays import TICK_SECONDS, DelayedDelivery
from apogeemq.broker.services.held_pulls import HeldPulls
from apogeemq.broker.services.spread_topics import TopicSpreading
from apogeemq.broker.services.stat_windows import SAMPLE_SECONDS, StatWindows
from apogeemq.broker.state import BrokerState
from apogeemq.broker.tables.delay_offsets import DelayOffsets
from apogeemq.broker.tables.system_topics import system_topics
from apogeemq.errors import ConfigError
from apogeemq.model.delays import DelayLevels
from apogeemq.model.routes import DataVersion
from apogeemq.model.topics import TopicConfig
from apogeemq.protocol.codes import RequestCode
from apogeemq.runtime.alarm_clock import AlarmClock
from apogeemq.runtime.tasks import Tasks
from apogeemq.store.config import SYNC_FLUSH
from apogeemq.store.opening import OpenStore
from apogeemq.transport.broker_registration import BrokerIdentity
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher
from apogeemq.transport.flow import Limits
from apogeemq.transport.server import Server
from apogeemq.transport.tls import TlsServerContexts, TlsSettings

if TYPE_CHECKING:  # parts that cost memory are imported when they are needed
    from apogeemq.runtime.status_http import StatusServer

log = logging.getLogger(__name__)

_STOP_GRACE_SECONDS = 5.0
_PORT_ATTEMPTS = 20
_HOUSEKEEPING_SECONDS = 10.0
# A client has one connection for all its queues and sends; Apache's has at most so many requests under way.
_MAX_HELD_PER_CHANNEL = 65_535
# Pulls may wait and carry much: the fast port is for everything else.
_NOT_ON_FAST_PORT = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)


class Broker:
    """Made, started and stopped on one event loop; several may live in one process."""

    def __init__(self, settings: ServerSettings, environment: Mapping[str, str]) -> None:
        self.settings = settings
        self._environment = environment
        self.dispatcher = Dispatcher()
        tls = TlsSettings.from_properties(settings.tls)
        self._tls = TlsServerContexts(tls.server_mode, tls)
        limits = _limits(settings.config)
        self.server = Server(self.dispatcher, limits, tls=self._tls, on_closed=self._channel_closed)
        self._fast_dispatcher = Dispatcher()
        self.fast_server = Server(self._fast_dispatcher, limits, tls=self._tls, on_closed=self._channel_closed)
        self.delays = _delay_levels(settings)
        self._opened: OpenStore | None = None
        self._status: StatusServer | None = None
        self._clock = AlarmClock()
        self._tasks = Tasks(self._clock.sleep)
        self._is_stopping = False
        # Set by `start`, in this order.
        self.promises: FlushPromises
        self.state: BrokerState
        self.tables: KeptTables
        self.putter: Putter
        self.held: HeldPulls
        self.windows: StatWindows
        self.delay_offsets: DelayOffsets
        self.delivery: DelayedDelivery
        self.outward: Outward
        self.registration: Registration
        self.spreading: TopicSpreading
        self._sends: SendHandlers
        self._clients: ClientHandlers

    # -- life ------------------------------------------------------------------------------------------------

    async def start(self) -> tuple[str, int]:
        """Everything is ready when this returns: the address given accepts connections."""
        loop, config = asyncio.get_running_loop(), self.settings.config
        opened = await asyncio.to_thread(
            OpenStore.open,
            self.settings.store,
            lambda topic, properties, store_time: tags_code(topic, properties, store_time, self.delays),
            lambda offset: self._flushed(loop, offset),
            lambda error: self._flush_failed(loop),
        )
        self._opened = opened
        self.promises = FlushPromises(
            loop,
            lambda: opened.store.settle(is_for_flush=True),
            opened.request_flush,
            self.settings.store.sync_flush_timeout,
            lambda: opened.flushed_offset,
        )
        advertised = await _host_bytes(self.settings.advertised_host())
        host, port = self._listen(config)
        self._make_parts(loop, opened, advertised, port)
        self._start_clocks()
        await self.registration.start()
        return host, port

    def _listen(self, config: BrokerConfig) -> tuple[str, int]:
        """Both ports, or ConfigError. Nothing is accepted before control goes back to the loop."""
        for _ in range(_PORT_ATTEMPTS):
            host, port = self.server.start(config.bind_address, config.listen_port, config.server_socket_backlog)
            if not config.fast_port_enable:
                return host, port
            try:
                self.fast_server.start(config.bind_address, port + FAST_PORT_STEP, config.server_socket_backlog)
                return host, port
            except (ConfigError, OverflowError):
                if config.listen_port:
                    raise
                self.server.stop_accepting()  # any port would do, so that another one does, too
        raise ConfigError(f"no two free ports {-FAST_PORT_STEP} apart were found in {_PORT_ATTEMPTS} attempts")

    def _make_parts(self, loop: asyncio.AbstractEventLoop, opened: OpenStore, advertised: bytes, port: int) -> None:
        settings, config = self.settings, self.settings.config
        address = settings.advertised_address(port)
        state = self.state = BrokerState(settings, opened, self.promises, advertised, address)
        delay_offsets = self.delay_offsets = DelayOffsets(state.start_time_ms)
        self.windows = StatWindows(state.stats, state.now_ms(), date.today())
        self.tables = KeptTables(settings.data_dir / "config", state, delay_offsets)
        self.tables.load()
        self._add_system_topics()
        self.putter = Putter(opened.store, self.delays, state.now_ms)
        self.held = HeldPulls(loop, opened.store, config.max_held_pulls)
        self.delivery = DelayedDelivery(opened.store, self.putter, self.delays, delay_offsets, state.stats)
        self.outward = Outward(lambda: state.config, settings.tls, self._environment)
        self.registration = Registration(
            self.outward,
            BrokerIdentity(
                config.broker_cluster_name, config.broker_name, config.broker_id, address, settings.ha_address(port)
            ),
            lambda: (state.topics.topics, state.topics.data_version),
            lambda: state.config,
            lambda order: state.topics.set_ordered(order, state.now_ms()),
            state.now_ms,
        )
        self.spreading = TopicSpreading(self.outward, lambda: state.config)
        state.topics.on_change = self._topics_changed
        state.topic_auto_created = self.spreading.topic_created
        state.wake_pulls = self.held.wake_all
        state.register_soon = self.registration.register_soon
        self._install_handlers()

    def _add_system_topics(self) -> None:
        """A topic that is kept already stays as people set it."""
        topics = self.state.topics
        if topics.data_version == DataVersion():
            topics.data_version = DataVersion(timestamp=self.state.now_ms())  # of two brokers the newer one is known
        for config in system_topics(self.settings.config):
            topics.own_system_topics.add(config.topic_name)
            topics.topics.setdefault(config.topic_name, config)

    def _install_handlers(self) -> None:
        state, dispatcher = self.state, self.dispatcher
        self._sends = SendHandlers(state, self.putter)
        self._sends.install(dispatcher)
        SendBackHandlers(state, self.putter).install(dispatcher)
        PullHandlers(state, self.held).install(dispatcher)
        OffsetHandlers(state).install(dispatcher)
        QueryHandlers(state).install(dispatcher)
        self._clients = ClientHandlers(state)
        self._clients.install(dispatcher)
        LockHandlers(state).install(dispatcher)
        RelayHandlers(state).install(dispatcher)
        install_administration(
            dispatcher,
            RuntimeParts(state, self.windows, self.putter, self.delay_offsets),
            LiveConfig(state, self._config_changed),
            self.outward,
        )
        for code, handler in dispatcher.handlers.items():
            if code not in _NOT_ON_FAST_PORT:
                self._fast_dispatcher.register(code, handler)
        self._fast_dispatcher.before_answers = dispatcher.before_answers

    def start_status(self, host: str, port: int) -> tuple[str, int]:
        """Metrics and health over HTTP."""
        from apogeemq.broker.status import status_pages
        from apogeemq.runtime.status_http import StatusServer

        self._status = StatusServer(status_pages(self))
        return self._status.start(host, port)

    async def stop(self) -> None:
        """Leave the name servers, finish what was taken, keep everything. To be called after a failed start, too."""
        self._is_stopping = True
        if hasattr(self, "registration"):
            await self.registration.stop()
        for server in (self.server, self.fast_server):
            server.stop_accepting()
        if hasattr(self, "held"):
            self.held.release_all()
        await asyncio.gather(*(server.stop(_STOP_GRACE_SECONDS) for server in (self.server, self.fast_server)))
        await self._tasks.cancel_all()
        self._clock.close()
        if self._status is not None:
            await self._status.stop()
        if hasattr(self, "spreading"):
            await self.spreading.stop()
            await self.outward.close()
        if hasattr(self, "tables"):
            await self.tables.save_all()
        if self._opened is not None:
            await asyncio.to_thread(self._opened.close)

    # -- what happens on a clock -----------------------------------------------------------------------------

    def _start_clocks(self) -> None:
        state = self.state
        self._tasks.repeat(lambda: 1.0, self._tick)
        self._tasks.repeat(lambda: 1.0, self._tick_outward)
        self._tasks.repeat(lambda: TICK_SECONDS, lambda: self.delivery.tick(state.now_ms()))
        self._tasks.repeat(lambda: _HOUSEKEEPING_SECONDS, self._clients.expire)
        self._tasks.repeat(lambda: state.store_config.clean_resource_interval / 1000, self._clean_store)
        self._tasks.repeat(lambda: SAMPLE_SECONDS, lambda: self.windows.sample(state.now_ms(), date.today()))
        self._tasks.repeat(lambda: SAVE_CHECK_SECONDS, self.tables.tick)
        self._tasks.spawn(self.tables.keep())
        self._tasks.spawn(self._tls.watch())

    def _tick(self) -> None:
        self.server.tick()
        self.fast_server.tick()
        self.promises.expire(self.state.now_ms())

    async def _tick_outward(self) -> None:
        """On its own: it may wait for a name server."""
        await self.outward.tick()
        self.registration.tick()

    def _clean_store(self) -> None:
        """Delete what has had its time."""
        self.state.opened.clean(self.state.now_ms(), datetime.now().hour)

    # -- consequences ----------------------------------------------------------------------------------------

    def _flushed(self, loop: asyncio.AbstractEventLoop, offset: int) -> None:
        """From the flush thread. The loop is not woken when nobody waits."""
        if len(self.promises):
            loop.call_soon_threadsafe(self.promises.flushed, offset)

    def _flush_failed(self, loop: asyncio.AbstractEventLoop) -> None:
        """From the flush thread."""
        loop.call_soon_threadsafe(self.promises.failed)

    def _config_changed(self, keys: Set[str]) -> None:
        """What keeps a setting of its own is told."""
        limits = _limits(self.state.config)
        self.server.limits = self.fast_server.limits = limits
        self.putter.max_message_size = self.state.store_config.max_message_size
        self._sends.is_sync = self.state.store_config.flush_disk_type == SYNC_FLUSH

    def _topics_changed(self, changed: list[TopicConfig]) -> None:
        self.tables.topics_changed()
        self.registration.topics_changed(changed)

    def _channel_closed(self, channel: Channel) -> None:
        if not self._is_stopping and hasattr(self, "_clients"):
            self._clients.channel_closed(channel)


def _limits(config: BrokerConfig) -> Limits:
    return Limits(
        max_frame_size=config.max_frame_size,
        max_held=config.max_held_requests,
        max_held_per_channel=_MAX_HELD_PER_CHANNEL,
        max_connections=config.max_connections,
        refuse_at=config.max_queued_answer_bytes,
        idle_seconds=config.server_channel_max_idle_time_seconds,
        partial_frame_seconds=config.partial_frame_seconds,
        first_byte_seconds=config.server_channel_max_idle_time_seconds,
    )


def _delay_levels(settings: ServerSettings) -> DelayLevels:
    try:
        return DelayLevels(settings.store.message_delay_level)
    except ValueError as error:
        raise ConfigError(f"messageDelayLevel: {error}") from None


async def _host_bytes(host: str) -> bytes:
    """The advertised host as records hold it: 4 or 16 bytes."""
    try:
        return ip_address(host).packed
    except ValueError:
        pass
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None)
    except OSError as error:
        raise ConfigError(f"the advertised host {host} has no address: {error.strerror or error}") from None
    return ip_address(min(found)[4][0]).packed  # IPv4 before IPv6, and always the same
