"""What the status port shows: metrics and health."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from apogeemq import __version__
from apogeemq.broker.figures.metrics import families
from apogeemq.runtime.metrics import render
from apogeemq.runtime.status_http import Page, Response

if TYPE_CHECKING:
    from apogeemq.broker.server import Broker

_JSON = "application/json"


def status_pages(broker: Broker) -> dict[str, Page]:
    return {"/metrics": lambda: _metrics(broker), "/healthz": lambda: _health(broker)}


def _health(broker: Broker) -> Response:
    """503 while no message can be stored; it can be read all the same."""
    state = broker.state
    problem = state.store.why_not_writable()
    health = {
        "status": "ok" if problem is None else "read-only",
        "problem": problem,
        "version": __version__,
        "uptimeSeconds": round((state.now_ms() - state.start_time_ms) / 1000, 1),
        "brokerName": state.config.broker_name,
        "address": state.address,
        "topics": len(state.topics.topics),
        "groups": len(state.groups.groups),
        "nameServers": {server.address: server.is_registered for server in broker.registration.states},
    }
    return Response(200 if problem is None else 503, _JSON, msgspec.json.encode(health))


def _metrics(broker: Broker) -> Callable[[], Response]:
    """Gathered on the loop, written off it."""
    gathered = families(broker)

    def encode() -> Response:
        content_type, text = render(gathered)
        return Response(200, content_type, text)

    return encode
