"""Key-value configuration: namespace, key, value; kept in Apache's file format.

A change is taken only once it is on the disk: the new content is written first, then becomes the table. Writers
take turns; readers see the old table until then. A change that has begun is finished even when whoever asked for it
is gone.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from apogeemq.errors import StorageFailed
from apogeemq.model.topics import ORDER_TOPIC_NAMESPACE
from apogeemq.protocol.bodies.routes import KvTable
from apogeemq.runtime.atomic_file import read_with_backup, write_atomically

Table = dict[str, dict[str, str]]


class _KvFile(msgspec.Struct):
    configTable: Table = {}


class KvConfig:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._turn = asyncio.Lock()
        self.table: Table = {}

    def load(self) -> None:
        """Blocking; at start. A missing file is an empty table."""
        self.table = read_with_backup(self._path, _parse) or {}

    def get(self, namespace: str | None, key: str | None) -> str | None:
        return self.table.get(namespace or "", {}).get(key or "")

    def order_conf(self, topic: str) -> str | None:
        return self.get(ORDER_TOPIC_NAMESPACE, topic)

    def encoded_namespace(self, namespace: str | None) -> bytes | None:
        """The body of a listing; None for a namespace never used."""
        values = self.table.get(namespace or "")
        return None if values is None else msgspec.json.encode(KvTable(values))

    async def put(self, namespace: str, key: str, value: str | None) -> None:
        await asyncio.shield(self._keep(namespace, key, value))

    async def delete(self, namespace: str, key: str) -> None:
        """A namespace once used stays, empty, as in Apache."""
        await asyncio.shield(self._keep(namespace, key, None, makes_namespace=False))

    async def _keep(self, namespace: str, key: str, value: str | None, *, makes_namespace: bool = True) -> None:
        async with self._turn:
            if namespace not in self.table and not makes_namespace:
                return
            values = {name: known for name, known in self.table.get(namespace, {}).items() if name != key}
            if value is not None:
                values[key] = value
            table = {**self.table, namespace: values}
            await asyncio.to_thread(write_atomically, self._path, msgspec.json.encode(_KvFile(table)))
            self.table = table


def _parse(data: bytes) -> Table:
    if not data.strip():
        return {}
    try:
        return msgspec.json.decode(data, type=_KvFile).configTable
    except (msgspec.MsgspecError, RecursionError) as error:
        raise StorageFailed(f"not a key-value file: {error}") from None
