"""The broker itself: how it is, how it is configured, what went through it."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

import msgspec

from apogeemq.broker.figures.runtime_info import RuntimeParts, runtime_info
from apogeemq.broker.services.stat_windows import Gain, TableWindows, Window
from apogeemq.errors import RequestRefused
from apogeemq.model.routes import DataVersion
from apogeemq.protocol.bodies import admin as bodies
from apogeemq.protocol.codec import encode_ok, encode_reply
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers import admin as headers
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher

MAX_CONFIG_SIZE: Final = 256 * 1024  # of an update


class ConfigStore(Protocol):
    """The configuration in effect, and its one way to change."""

    version: DataVersion

    def shown(self) -> str: ...

    async def update(self, text: str) -> None: ...


class StatusHandlers:
    def __init__(self, parts: RuntimeParts, config_store: ConfigStore) -> None:
        self._parts = parts
        self._state = parts.state
        self._config_store = config_store
        windows = parts.windows
        # By the name of a statistic: its table, and which of the figures it counts.
        self._statistics: dict[str, tuple[TableWindows, str]] = {
            "TOPIC_PUT_NUMS": (windows.puts, "messages"),
            "TOPIC_PUT_SIZE": (windows.puts, "size"),
            "GROUP_GET_NUMS": (windows.gets, "messages"),
            "GROUP_GET_SIZE": (windows.gets, "size"),
            "SNDBCK_PUT_NUMS": (windows.send_backs, "messages"),
        }

    def install(self, dispatcher: Dispatcher) -> None:
        dispatcher.register(RequestCode.GET_BROKER_RUNTIME_INFO, self.runtime_info)
        dispatcher.register(RequestCode.GET_BROKER_CONFIG, self.get_config)
        dispatcher.register(RequestCode.UPDATE_BROKER_CONFIG, self.update_config)
        dispatcher.register(RequestCode.VIEW_BROKER_STATS_DATA, self.stats_data)
        dispatcher.register(RequestCode.GET_BROKER_HA_STATUS, self.replication)

    def runtime_info(self, channel: Channel, command: Command) -> bytes:
        table = runtime_info(self._parts, self._state.now_ms())
        return encode_ok(command, bodies.encode(bodies.KvTable(table)))

    # -- configuration ---------------------------------------------------------------------------------------

    def get_config(self, channel: Channel, command: Command) -> bytes:
        version = msgspec.json.encode(self._config_store.version).decode()
        return encode_reply(command, fields={"version": version}, body=self._config_store.shown().encode())

    def update_config(self, channel: Channel, command: Command) -> asyncio.Future[bytes]:
        if len(command.body) > MAX_CONFIG_SIZE:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"the configuration is longer than {MAX_CONFIG_SIZE} bytes")
        try:
            text = command.body.decode()
        except UnicodeDecodeError:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "the configuration is not UTF-8 text") from None

        async def update() -> bytes:
            await self._config_store.update(text)
            return encode_reply(command)

        return asyncio.ensure_future(update())

    # -- statistics ------------------------------------------------------------------------------------------

    def stats_data(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_stats_data(command)
        windows, figure = self._statistics.get(header.statsName, (None, ""))
        if windows is None or header.statsKey not in windows.table.rows:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"The stats <{header.statsName}> <{header.statsKey}> not exist"
            )
        answer = bodies.StatsData(
            statsDay=_item(windows.day, header.statsKey, figure),
            statsHour=_item(windows.hour, header.statsKey, figure),
            statsMinute=_item(windows.minute, header.statsKey, figure),
        )
        return encode_ok(command, bodies.encode(answer))

    def replication(self, channel: Channel, command: Command) -> bytes:
        """Of a master that has no slaves."""
        return encode_ok(command, bodies.encode(bodies.MasterReplication(self._state.store.log.max_offset)))


def _item(window: Window, key: str, figure: str) -> bodies.StatsItem:
    gain: Gain = window.sum(key)
    total = int(getattr(gain, figure))
    seconds = window.length_seconds
    return bodies.StatsItem(
        avgpt=total / gain.times if gain.times else 0.0, sum=total, tps=total / seconds if seconds else 0.0
    )
