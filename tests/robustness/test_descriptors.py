"""A server that has no descriptor left: who is connected is served, who is not waits."""

from __future__ import annotations

import resource
from pathlib import Path

from apogeemq.protocol.codes import RequestCode, ResponseCode
from tests.peers.process import wait_for
from tests.robustness.attacked import Attacked, broker_addresses, route_request
from tests.robustness.raw_peer import new_host, request

SPARE = 10


def test_without_descriptors_the_connected_are_served_and_the_others_wait(attacked: Attacked) -> None:
    put = request(RequestCode.PUT_KV_CONFIG, {"namespace": "ns", "key": "k", "value": "v"})
    get = request(RequestCode.GET_KV_CONFIG, {"namespace": "ns", "key": "k"})
    pid, limit = attacked.server.pid, resource.RLIMIT_NOFILE
    before = resource.prlimit(pid, limit)
    with attacked.peer() as client:
        assert client.ask(route_request()).code == ResponseCode.SUCCESS
        highest = max(int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir())
        resource.prlimit(pid, limit, (highest + SPARE, before[1]))
        host = new_host()
        waiting = [attacked.peer(host) for _ in range(2 * SPARE)]
        for peer in waiting:
            peer.send(route_request())
        wait_for(lambda: attacked.lines_about("cannot accept"), "the server has no descriptor left")

        assert list(broker_addresses(client.ask(route_request()))) == ["steady-broker"]
        refused = client.ask(put)
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert "Too many open files" in (refused.remark or "")
        assert client.ask(get).code == ResponseCode.QUERY_NOT_FOUND

        resource.prlimit(pid, limit, before)
        for peer in waiting:
            assert list(broker_addresses(peer.receive())) == ["steady-broker"]
            peer.socket.close()
        assert client.ask(put).code == ResponseCode.SUCCESS
        assert client.ask(get).fields() == {"value": "v"}
    assert len(attacked.lines_about("cannot accept")) < 100
