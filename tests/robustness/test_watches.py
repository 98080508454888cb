"""Route watches by the hundred, of a peer that does not read what it waited for."""

from __future__ import annotations

import msgspec

from apogeemq.protocol.bodies.registration import TopicConfig
from apogeemq.protocol.codes import RequestCode, ResponseCode
from tests.peers.process import wait_for
from tests.robustness.attacked import MIB, Attacked, broker_addresses, register_request, route_request
from tests.robustness.raw_peer import request

WATCHES = 500
TOPICS = [f"watched-{number:04d}" for number in range(1_000)]


def test_watches_of_a_peer_that_never_reads_take_bounded_memory(attacked: Attacked) -> None:
    body = msgspec.json.encode({"topics": dict.fromkeys(TOPICS, "none")})
    attacked.reset_peak()
    before = attacked.memory()
    with attacked.peer(receive_buffer=64 * 1024) as watcher, attacked.peer() as broker:
        for number in range(WATCHES):
            watcher.send(request(RequestCode.WATCH_ROUTES, {"timeoutMillis": "110000"}, body, opaque=number))
        wait_for(lambda: attacked.counters()["route_watchers"] == WATCHES, "all watches are held")
        said = register_request("watched", {name: TopicConfig(name, 4, 4) for name in TOPICS})
        assert broker.ask(said).code == ResponseCode.SUCCESS
        assert list(broker_addresses(broker.ask(route_request(TOPICS[-1])))) == ["watched"]
        wait_for(lambda: attacked.counters()["route_watchers"] == 0, "all watches are answered")
        first = watcher.receive()
        assert len(msgspec.json.decode(first.body)["changed"]) == len(TOPICS)
    # 100 MiB for half a million topics watched; all answers together would be another 180.
    assert attacked.memory("VmHWM") - before < 180 * MIB
