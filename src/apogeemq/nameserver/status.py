"""What the status port shows: metrics, health, routes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from apogeemq import __version__
from apogeemq.nameserver import route_queries
from apogeemq.protocol.bodies import routes
from apogeemq.protocol.codes import RequestCode
from apogeemq.runtime.metrics import Family, Sample, render
from apogeemq.runtime.status_http import Page, Response

if TYPE_CHECKING:
    from apogeemq.nameserver.server import NameServer

_JSON = "application/json"


def status_pages(name_server: NameServer) -> dict[str, Page]:
    started = time.monotonic()
    return {
        "/metrics": lambda: _metrics(name_server),
        "/healthz": lambda: _health(name_server, time.monotonic() - started),
        "/routes": lambda: _routes(name_server),
    }


def _health(name_server: NameServer, uptime_seconds: float) -> Response:
    table = name_server.registry.table
    health = {
        "status": "ok",
        "version": __version__,
        "uptimeSeconds": round(uptime_seconds, 1),
        "brokers": len(table.live),
        "restoredBrokers": table.restored_count,
        "topics": len(table.topics),
    }
    return Response(200, _JSON, msgspec.json.encode(health))


def _routes(name_server: NameServer) -> Callable[[], Response]:
    """All topics with their routes. Gathered on the loop, encoded off it: the table may be large."""
    table = name_server.registry.table
    restored = route_queries.restored_names(table)
    clusters = {cluster: list(names) for cluster, names in table.clusters.items()}
    brokers = {
        name: {**routes.broker_group(group), "restored": name in restored} for name, group in table.brokers.items()
    }
    topics = {topic: dict(queues) for topic, queues in table.topics.items()}

    def encode() -> Response:
        shown = {
            topic: [routes.queue_data(name, queues[name]) for name in sorted(queues)]
            for topic, queues in sorted(topics.items())
        }
        body = {"clusters": clusters, "brokers": brokers, "topics": shown}
        return Response(200, _JSON, msgspec.json.encode(body))

    return encode


def _metrics(name_server: NameServer) -> Callable[[], Response]:
    families = _families(name_server)

    def encode() -> Response:
        content_type, text = render(families)
        return Response(200, content_type, text)

    return encode


def _families(name_server: NameServer) -> list[Family]:
    registry, server, dispatcher = name_server.registry, name_server.server, name_server.dispatcher
    table, counters = registry.table, server.counters
    journal, snapshots = registry.journal, name_server.snapshots
    closed = {
        "idle": counters.closed_idle,
        "stalled": counters.closed_stalled,
        "malformed": counters.closed_malformed,
        "tls": counters.tls_failed,
        "refused": counters.refused,
    }
    requests = [
        Sample(count, {"code": str(code), "name": RequestCode(code).name})
        for code, count in dispatcher.request_counts.items()
    ]
    return [
        Family("apogee_namesrv_requests", "counter", "Requests by code.", requests),
        _counter("request_failures", "Requests answered with an unexpected error.", dispatcher.failure_count),
        _counter("access_refusals", "Requests refused for lack of permission.", name_server.access_refusals()),
        _counter("connections_accepted", "Connections accepted.", counters.accepted),
        Family(
            "apogee_namesrv_connections_closed",
            "counter",
            "Connections closed by us, by reason.",
            [Sample(count, {"reason": reason}) for reason, count in closed.items()],
        ),
        _gauge("connections", "Connections open.", server.connection_count),
        _gauge("held_requests", "Requests that wait for a later answer.", server.held_count),
        _gauge("route_watchers", "Route watches held.", registry.watchers.count),
        _gauge("brokers", "Live brokers.", len(table.live)),
        _gauge("brokers_restored", "Brokers known from the snapshot only.", table.restored_count),
        _gauge("clusters", "Clusters.", len(table.clusters)),
        _gauge("topics", "Topics.", len(table.topics)),
        _gauge("route_cache_bytes", "Bytes of encoded route answers.", registry.cache.size),
        _gauge("route_cache_entries", "Encoded route answers.", registry.cache.count),
        _gauge("journal_sequence", "Last number of the route journal.", journal.last_sequence if journal else 0),
        _counter("journal_failures", "Journal writes that failed.", journal.failure_count if journal else 0),
        _counter("snapshot_failures", "Snapshot writes that failed.", snapshots.failure_count if snapshots else 0),
    ]


def _counter(name: str, help_text: str, value: float) -> Family:
    return Family(f"apogee_namesrv_{name}", "counter", help_text, [Sample(value)])


def _gauge(name: str, help_text: str, value: float) -> Family:
    return Family(f"apogee_namesrv_{name}", "gauge", help_text, [Sample(value)])
