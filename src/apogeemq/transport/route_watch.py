"""The route watch of our name servers, from the side of whoever watches. Apache's do not know it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from apogeemq.errors import RemoteRefused
from apogeemq.model.routes import TopicRoute
from apogeemq.protocol import javajson
from apogeemq.protocol.bodies.routes import decode_route
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.fields import write_fields
from apogeemq.protocol.headers.nameserver import WatchRoutes
from apogeemq.transport.pool import ConnectionPool

_GRACE_SECONDS = 5.0


class WatchedRoute(msgspec.Struct, frozen=True):
    """`digest` is what to watch with next; `route` is None when nobody serves the topic any more."""

    digest: str
    route: TopicRoute | None


class _Entry(msgspec.Struct):
    digest: str = ""
    route: msgspec.Raw = msgspec.Raw(b"null")


class _Answer(msgspec.Struct):
    changed: dict[str, _Entry] = {}


async def watch_routes(
    pool: ConnectionPool, address: str, known: Mapping[str, str], timeout_seconds: float
) -> dict[str, WatchedRoute]:
    """The topics of `known` (name to digest, "" if none is known) whose route is another; waits until there is one, or
    gives nothing when the time is over."""
    answer = await pool.request(
        address,
        RequestCode.WATCH_ROUTES,
        write_fields(WatchRoutes(int(timeout_seconds * 1000))),
        msgspec.json.encode({"topics": known}),
        timeout_seconds=timeout_seconds + _GRACE_SECONDS,
    )
    if answer.code != ResponseCode.SUCCESS:
        raise RemoteRefused(answer.code, answer.remark, address)
    changed = javajson.loads(answer.body, _Answer).changed
    return {topic: WatchedRoute(entry.digest, _route_or_none(bytes(entry.route))) for topic, entry in changed.items()}


def _route_or_none(body: bytes) -> TopicRoute | None:
    return None if body == b"null" else decode_route(body)
