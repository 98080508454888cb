"""Key-value configuration and the name server's own configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

import msgspec

from apogeemq.errors import RequestRefused
from apogeemq.model.topics import ORDER_TOPIC_NAMESPACE
from apogeemq.nameserver.registry import Registry
from apogeemq.protocol.codec import encode_ok, encode_reply
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers import nameserver as headers
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher, Reply


class ConfigStore(Protocol):
    """The configuration in effect, and its one way to change."""

    def shown(self) -> str: ...

    async def update(self, text: str) -> None: ...


class SettingsHandlers:
    def __init__(self, registry: Registry, config_store: ConfigStore) -> None:
        self._registry = registry
        self._kv = registry.kv
        self._config_store = config_store

    def install(self, dispatcher: Dispatcher) -> None:
        dispatcher.register(RequestCode.PUT_KV_CONFIG, self.put_kv)
        dispatcher.register(RequestCode.GET_KV_CONFIG, self.get_kv)
        dispatcher.register(RequestCode.DELETE_KV_CONFIG, self.delete_kv)
        dispatcher.register(RequestCode.GET_KVLIST_BY_NAMESPACE, self.list_kv)
        dispatcher.register(RequestCode.GET_ALL_KV_CONFIG, self.all_kv)
        dispatcher.register(RequestCode.GET_NAMESRV_CONFIG, self.get_config)
        dispatcher.register(RequestCode.UPDATE_NAMESRV_CONFIG, self.update_config)

    def put_kv(self, channel: Channel, command: Command) -> Reply:
        header = headers.read_kv_key(command)
        if header.namespace is None or header.key is None:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "namespace or key is null")
        change = partial(self._kv.put, header.namespace, header.key, header.value)
        return self._when_kept(command, change, header.namespace, header.key)

    def delete_kv(self, channel: Channel, command: Command) -> Reply:
        header = headers.read_kv_key(command)
        namespace, key = header.namespace or "", header.key or ""
        return self._when_kept(command, partial(self._kv.delete, namespace, key), namespace, key)

    def _when_kept(
        self, command: Command, change: Callable[[], Awaitable[None]], namespace: str, key: str
    ) -> asyncio.Future[bytes]:
        async def keep() -> bytes:
            await change()
            if namespace == ORDER_TOPIC_NAMESPACE:
                self._registry.topics_changed({key})
            return encode_reply(command)

        return asyncio.ensure_future(keep())

    def get_kv(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_kv_key(command)
        value = self._kv.get(header.namespace, header.key)
        if value is None:
            namespace, key = header.namespace or "null", header.key or "null"
            raise RequestRefused(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace} Key: {key}")
        return encode_reply(command, fields={"value": value})

    def list_kv(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_kv_namespace(command)
        body = self._kv.encoded_namespace(header.namespace)
        if body is None:
            raise RequestRefused(
                ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {header.namespace or 'null'}"
            )
        return encode_ok(command, body)

    def all_kv(self, channel: Channel, command: Command) -> bytes:
        return encode_ok(command, msgspec.json.encode({"configTable": self._kv.table}))

    def get_config(self, channel: Channel, command: Command) -> bytes:
        return encode_ok(command, self._config_store.shown().encode())

    def update_config(self, channel: Channel, command: Command) -> Reply:
        try:
            text = command.body.decode()
        except UnicodeDecodeError:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "the configuration is not UTF-8 text") from None

        async def update() -> bytes:
            await self._config_store.update(text)
            return encode_reply(command)

        return asyncio.ensure_future(update())
