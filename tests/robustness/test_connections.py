"""Connections that cost without using: idle ones by the thousand, and peers that never read."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from struct import Struct

import msgspec
import pytest

from apogeemq.protocol.bodies.registration import TopicConfig
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.transport.flow import Limits
from tests.peers.process import wait_for
from tests.robustness.attacked import Attacked, broker_addresses, register_request, route_request
from tests.robustness.never_reads import FIRST_OPAQUE, NeverReads
from tests.robustness.raw_peer import RawPeer, new_host, request

WANTED_CONNECTIONS = 10_000
LEAST_CONNECTIONS = 1_000
LONG_LIST = 1_000
RESET_ON_CLOSE = Struct("ii").pack(1, 0)
_SPARE_DESCRIPTORS = 500
_KIB_EACH = 16  # of the server's memory for a connection that has asked something; measured: a third


@pytest.fixture
def connection_count() -> Iterator[int]:
    """How many connections this process may open; its own soft limit is raised as far as it goes meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_CONNECTIONS + _SPARE_DESCRIPTORS
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, allowed), hard))
    yield min(WANTED_CONNECTIONS, max(soft, allowed) - _SPARE_DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_ten_thousand_idle_connections_cost_little_and_disturb_nobody(
    attacked: Attacked, connection_count: int
) -> None:
    """Half of them never say a word, half have asked for a route once."""
    assert connection_count >= LEAST_CONNECTIONS
    before, memory_before = attacked.counters(), attacked.memory()
    host = new_host()
    with ExitStack() as stack:
        peers = [stack.enter_context(attacked.peer(host)) for _ in range(connection_count)]
        for peer in peers[::2]:
            peer.send(route_request())
        for peer in peers[::2]:
            assert list(broker_addresses(peer.receive())) == ["steady-broker"]
        expected = before["connections"] + connection_count
        wait_for(lambda: attacked.counters()["connections"] == expected, "all are accepted")
        assert attacked.memory() - memory_before < connection_count * _KIB_EACH * 1024
        late = stack.enter_context(attacked.peer())
        assert list(broker_addresses(late.ask(route_request()))) == ["steady-broker"]
        assert not any(peer.has_ended() for peer in (peers[0], peers[1], peers[-1]))
    wait_for(lambda: attacked.counters()["connections"] == before["connections"], "all are gone")
    after = attacked.counters()
    assert after["connections_accepted_total"] == before["connections_accepted_total"] + connection_count + 1
    assert not attacked.lines_about(host)


@pytest.fixture
def long_list(attacked: Attacked) -> Iterator[int]:
    """Enough topics that their list is a hundred kilobytes; gives its size."""
    topics = {f"long-{number:05d}-{'x' * 100}": TopicConfig(None, 1, 1) for number in range(LONG_LIST)}
    with attacked.peer() as broker:
        assert broker.ask(register_request("long", topics, address="10.0.0.6:10911")).code == ResponseCode.SUCCESS
        yield len(broker.ask(request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).body)


def test_a_peer_that_never_reads_its_answers_is_not_read_either(attacked: Attacked, long_list: int) -> None:
    attacked.reset_peak()
    before = attacked.memory()
    with NeverReads(attacked) as asker:
        asker.send_until_stuck()
        assert asker.sent * long_list > 4 * Limits().refuse_at  # far more answers than the server keeps
        assert attacked.memory("VmHWM") - before < 3 * Limits().refuse_at
        # It begins to read: every request has its answer, in order.
        codes = [
            answer_code(asker.peer, opaque, long_list) for opaque in range(FIRST_OPAQUE, FIRST_OPAQUE + asker.sent)
        ]
        assert codes[0] == ResponseCode.SUCCESS
        assert set(codes) <= {ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY}
    assert attacked.memory("VmHWM") - before < 3 * Limits().refuse_at


def answer_code(peer: RawPeer, opaque: int, list_size: int) -> int:
    answer = peer.receive()
    assert answer.opaque == opaque
    if answer.code == ResponseCode.SUCCESS:
        assert len(answer.body) == list_size
        assert len(msgspec.json.decode(answer.body)["topicList"]) >= LONG_LIST
    return answer.code


def test_a_peer_that_goes_away_without_reading_leaves_nothing_behind(attacked: Attacked, long_list: int) -> None:
    before = attacked.counters()
    for _ in range(20):
        with NeverReads(attacked) as asker:
            asker.send_until_stuck()
            asker.peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    wait_for(lambda: attacked.counters()["connections"] == before["connections"], "all are gone")
