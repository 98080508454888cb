"""Peers that begin and do not end: with short limits, so that their end is seen without long waiting."""

from __future__ import annotations

import pytest

from apogeemq.protocol.codes import ResponseCode
from apogeemq.protocol.framing import MAX_FRAME_SIZE
from tests.peers.process import wait_for
from tests.robustness.attacked import Attacked, broker_addresses, register_request, route_request
from tests.robustness.never_reads import NeverReads
from tests.robustness.raw_peer import new_host

HALF_FRAMES = {
    "half a length": route_request()[:2],
    "a length": route_request()[:4],
    "half a header": route_request()[:40],
    "all but the last byte": route_request()[:-1],
    "the largest frame, begun": (MAX_FRAME_SIZE - 4).to_bytes(4, "big") + bytes(1000),
    "half a frame after a whole one": route_request() + route_request()[:20],
}


@pytest.fixture(scope="module")
def properties() -> dict[str, str]:
    return {"partialFrameSeconds": "1", "serverChannelMaxIdleTimeSeconds": "3"}


def test_half_a_frame_then_silence_is_closed_but_not_a_busy_peer_in_the_middle_of_one(attacked: Attacked) -> None:
    before = attacked.closed("stalled")
    host = new_host()
    busy = attacked.peer()
    busy.send(route_request()[:10])  # from here on it has never sent a whole number of frames
    peers = [attacked.peer(host) for _ in HALF_FRAMES]
    for peer, data in zip(peers, HALF_FRAMES.values(), strict=True):
        peer.send(data)
    assert list(broker_addresses(peers[-1].receive())) == ["steady-broker"]

    def all_have_ended() -> bool:
        busy.send(route_request()[10:] + route_request()[:10])
        assert list(broker_addresses(busy.receive())) == ["steady-broker"]
        return all(peer.has_ended() for peer in peers)

    wait_for(all_have_ended, "the server closes all halves")
    busy.send(route_request()[10:])
    assert list(broker_addresses(busy.receive())) == ["steady-broker"]
    for peer in (*peers, busy):
        peer.socket.close()
    assert attacked.closed("stalled") == before + len(peers)
    said = attacked.lines_about(f"closed {host}:")
    assert len(said) == 1
    assert "half a frame" in said[0]


def test_a_peer_that_sends_byte_by_byte_is_closed(attacked: Attacked) -> None:
    """However busy it looks: what counts is a whole frame."""
    before = attacked.closed("stalled")
    data = register_request("slow", {})
    with attacked.peer() as peer:
        sent = 0

        def one_more_byte() -> bool:
            nonlocal sent
            if peer.has_ended():
                return True
            peer.send(data[sent : sent + 1])
            sent += 1
            assert sent < len(data), "the whole frame was taken"
            return False

        wait_for(one_more_byte, "the server closes")
    assert attacked.closed("stalled") == before + 1
    assert len(attacked.lines_about(f"closed {peer.host}:")) == 1


def test_a_peer_that_is_quick_byte_by_byte_is_served(attacked: Attacked) -> None:
    with attacked.peer() as peer:
        for number in route_request():
            peer.send(bytes([number]))
        assert list(broker_addresses(peer.receive())) == ["steady-broker"]


def test_those_who_neither_ask_nor_read_are_closed_when_idle_for_too_long(attacked: Attacked) -> None:
    before = attacked.counters()
    peers = [attacked.peer() for _ in range(10)]
    for peer in peers[:5]:
        assert peer.ask(route_request()).code == ResponseCode.SUCCESS
    with NeverReads(attacked) as asker:
        asker.send_until_stuck()
        for peer in peers:
            assert peer.ended()
            peer.socket.close()
        wait_for(lambda: attacked.counters()["connections"] == before["connections"], "all are gone")
    after = attacked.counters()
    idle, stalled = (f'connections_closed_total{{reason="{reason}"}}' for reason in ("idle", "stalled"))
    assert after[idle] == before[idle] + len(peers) + 1
    assert after[stalled] == before[stalled]  # the frame of which half has come is one we do not read
    assert not attacked.lines_about(f"closed {asker.peer.host}:")
