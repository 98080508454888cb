"""Route watch and route journal: what this name server offers beyond Apache's."""

from __future__ import annotations

import asyncio

import msgspec

from apogeemq.errors import RequestRefused
from apogeemq.nameserver.registry import Registry
from apogeemq.protocol import javajson
from apogeemq.protocol.codec import encode_reply
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers import nameserver as headers
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher, Reply

MAX_WATCH_MS = 110_000  # below the 120 s after which either side closes a silent connection
MAX_ANSWER_SIZE = 4 * 1024 * 1024  # of routes in one answer (or one route); a client takes frames of 16 MiB
MAX_JOURNAL_LINES = 10_000


class WatchBody(msgspec.Struct):
    """Topic to the digest its watcher knows; an empty digest is always out of date."""

    topics: dict[str, str] = {}


class WatchHandlers:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def install(self, dispatcher: Dispatcher) -> None:
        dispatcher.register(RequestCode.WATCH_ROUTES, self.watch_routes)
        dispatcher.register(RequestCode.READ_ROUTE_JOURNAL, self.read_journal)

    def watch_routes(self, channel: Channel, command: Command) -> Reply:
        header = headers.read_watch_routes(command)
        known = javajson.loads(command.body, WatchBody).topics if command.body else {}
        most = self._registry.config.max_watch_topics
        if not 1 <= len(known) <= most:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"a watch names 1 to {most} topics, not {len(known)}")
        timeout_ms = min(max(header.timeoutMillis, 0), MAX_WATCH_MS)
        return self._registry.watchers.watch(
            known, timeout_ms / 1000, lambda changed: encode_reply(command, body=self._changed_body(changed))
        )

    def _changed_body(self, changed: dict[str, str]) -> bytes:
        """What does not fit comes with the next watch, for which it is still out of date."""
        cache = self._registry.cache
        entries: dict[str, dict[str, object]] = {}
        size = 0
        for topic, digest in changed.items():
            route = cache.answer(topic, standard=True)
            size += len(route or b"")
            if entries and size > MAX_ANSWER_SIZE:
                break
            entries[topic] = {"digest": digest, "route": None if route is None else msgspec.Raw(route)}
        return msgspec.json.encode({"changed": entries})

    def read_journal(self, channel: Channel, command: Command) -> Reply:
        journal = self._registry.journal
        if journal is None:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "the route journal is turned off here (journalEnable)")
        header = headers.read_read_journal(command)
        most = min(max(header.maxLines, 1), MAX_JOURNAL_LINES)

        async def read() -> bytes:
            page = await asyncio.to_thread(journal.read, max(header.fromSequence, 1), most)
            fields = {
                "nextSequence": str(page.next_sequence),
                "firstSequence": str(journal.first_sequence),
                "lastSequence": str(journal.last_sequence),
            }
            return encode_reply(command, fields=fields, body=page.lines)

        return asyncio.ensure_future(read())
