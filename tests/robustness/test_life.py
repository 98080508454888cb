"""Start, stop, crash and start again, as an operator's tools do it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from apogeemq.protocol.bodies.registration import TopicConfig
from apogeemq.protocol.codes import RequestCode, ResponseCode
from tests.peers.ours import NameServer
from tests.peers.process import wait_for
from tests.robustness.attacked import broker_addresses, register_request, route_request
from tests.robustness.raw_peer import RawPeer, request

_TOPICS = {name: TopicConfig(name, 4, 4) for name in ("orders", "events")}
_ROUTE = {"b": "10.0.0.1:10911"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NameServer]:
    with NameServer(work_dir=tmp_path) as server:
        yield server


def join(peer: RawPeer) -> None:
    assert peer.ask(register_request("b", _TOPICS, address=_ROUTE["b"])).code == ResponseCode.SUCCESS


def snapshot(server: NameServer) -> dict[str, Any]:
    path = server.work_dir / "data" / "routes.json"
    saved: dict[str, Any] = msgspec.json.decode(path.read_bytes()) if path.exists() else {"topics": {}}
    return saved


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_when_told_to_and_writes_the_snapshot(server: NameServer, how: signal.Signals) -> None:
    watch = request(RequestCode.WATCH_ROUTES, {"timeoutMillis": "100000"}, b'{"topics":{"absent":"none"}}')
    with RawPeer(server.port) as broker, RawPeer(server.port) as watcher, RawPeer(server.port) as idle:
        join(broker)
        watcher.send(watch + route_request("orders", opaque=2))
        assert watcher.receive().opaque == 2  # so the watch before it is held
        idle.send(route_request()[:10])
        os.kill(server.pid, how)
        held = watcher.receive()
        assert (held.opaque, held.code, held.body) == (1, ResponseCode.SUCCESS, b'{"changed":{}}')
        assert broker.ended()
        assert idle.ended()
        assert server.wait() == 0
    assert sorted(snapshot(server)["topics"]) == ["events", "orders"]
    assert "Traceback" not in server.output()


def test_after_a_crash_it_serves_the_snapshot_marked_as_such(server: NameServer) -> None:
    with RawPeer(server.port) as broker:
        join(broker)
        wait_for(lambda: snapshot(server)["topics"], "the snapshot is written")
        server.kill()
    server.start()
    with RawPeer(server.port) as broker, RawPeer(server.port) as client:
        answer = client.ask(route_request("orders"))
        assert broker_addresses(answer) == _ROUTE
        assert answer.fields() == {"restored": "true"}
        join(broker)
        answer = client.ask(route_request("orders"))
        assert broker_addresses(answer) == _ROUTE
        assert answer.fields() == {}
        broker.socket.close()
        wait_for(lambda: client.ask(route_request("orders")).code == ResponseCode.TOPIC_NOT_EXIST, "the broker is gone")


def test_files_damaged_by_a_crash_are_no_reason_not_to_start(server: NameServer) -> None:
    """Without its snapshot it starts empty; the journal goes on after its last whole line."""
    with RawPeer(server.port) as broker:
        join(broker)
    server.kill()
    data = server.work_dir / "data"
    (data / "routes.json").write_bytes(b'{"version":1,"topics":{"orders":' + b"[" * 100_000)
    (journal,) = (data / "journal").glob("*.jsonl")
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"seq":4,"time":17')
    server.start()
    assert "warm start is not possible" in server.output()
    with RawPeer(server.port) as broker:
        assert broker.ask(route_request("orders")).code == ResponseCode.TOPIC_NOT_EXIST
        join(broker)
        assert broker_addresses(broker.ask(route_request("orders"))) == _ROUTE
        page = broker.ask(request(RequestCode.READ_ROUTE_JOURNAL, {"fromSequence": "1"}))
    assert page.body.startswith(whole)
    numbers = [msgspec.json.decode(line)["seq"] for line in page.body.splitlines()]
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("shared", ["port", "folder"])
def test_a_second_server_on_the_same_port_or_folder_says_so_and_touches_nothing(
    server: NameServer, shared: str
) -> None:
    with RawPeer(server.port) as broker:
        join(broker)
        wait_for(lambda: snapshot(server)["topics"], "the snapshot is written")
        data = server.work_dir / "data"
        before = {path: (path.stat().st_ino, path.read_bytes()) for path in data.rglob("*") if path.is_file()}
        second = NameServer(
            work_dir=server.work_dir / "second",
            port=server.port if shared == "port" else 0,
            data_dir=data if shared == "folder" else None,
            args=("--log-level", "error"),
        )
        second.launch()
        assert second.wait() != 0
        problem = {
            "port": f"cannot listen on {server.address}: Address already in use",
            "folder": f"the data folder {data} is in use by another process",
        }
        assert second.output() == f"apogee namesrv: {problem[shared]}\n"
        assert {path: (path.stat().st_ino, path.read_bytes()) for path in before} == before
        assert broker_addresses(broker.ask(route_request("orders"))) == _ROUTE
