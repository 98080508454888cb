"""No room left: writes are refused and counted, nothing is lost or half-written, routes are served as before."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from apogeemq.protocol.bodies.registration import TopicConfig
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from tests.peers.ours import NameServer
from tests.peers.process import wait_for
from tests.robustness.attacked import Attacked, broker_addresses, register_request, route_request
from tests.robustness.raw_peer import RawPeer, request
from tests.robustness.small_disk import SmallDisk

_NO_ROOM = ("No space left on device", "File too large")


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallDisk]:
    with SmallDisk(tmp_path_factory.mktemp("namesrv"), "--http-port", "0") as server:
        yield server


@pytest.fixture
def attacked(disk: SmallDisk) -> Iterator[Attacked]:
    attacked = Attacked(disk)
    with attacked.serving_others():
        yield attacked


def put(peer: RawPeer, key: str, value: str) -> Command:
    return peer.ask(request(RequestCode.PUT_KV_CONFIG, {"namespace": "n", "key": key, "value": value}))


def get(peer: RawPeer, key: str) -> str | None:
    answer = peer.ask(request(RequestCode.GET_KV_CONFIG, {"namespace": "n", "key": key}))
    return answer.fields()["value"] if answer.code == ResponseCode.SUCCESS else None


def join(peer: RawPeer, name: str, topic_count: int = 2) -> None:
    topics = {f"{name}-{number}": TopicConfig(None, 4, 4) for number in range(topic_count)}
    assert peer.ask(register_request(name, topics, address=f"{name}:10911")).code == ResponseCode.SUCCESS


def journal_numbers(data: Path) -> list[int]:
    """Every line is whole JSON, or this fails."""
    content = b"".join(path.read_bytes() for path in sorted((data / "journal").glob("*.jsonl")))
    assert content.endswith(b"\n")
    return [msgspec.json.decode(line)["seq"] for line in content.splitlines()]


def test_a_put_without_room_is_refused_and_what_was_kept_stays(disk: SmallDisk, attacked: Attacked) -> None:
    with attacked.peer() as peer:
        assert put(peer, "kept", "1").code == ResponseCode.SUCCESS
        before = (disk.data / "kvConfig.json").read_bytes()
        with disk.full():
            for value in ("small", "x" * 200_000):
                refused = put(peer, "kept", value)
                assert refused.code == ResponseCode.SYSTEM_ERROR
                assert any(reason in (refused.remark or "") for reason in _NO_ROOM)
                assert "kvConfig.json" in (refused.remark or "")
            assert get(peer, "kept") == "1"
            assert (disk.data / "kvConfig.json").read_bytes() == before
            assert not list(disk.data.glob("*.tmp"))
        assert put(peer, "new", "2").code == ResponseCode.SUCCESS
        assert (get(peer, "kept"), get(peer, "new")) == ("1", "2")
        saved = msgspec.json.decode((disk.data / "kvConfig.json").read_bytes())
        assert saved["configTable"]["n"] == {"kept": "1", "new": "2"}


def test_routes_change_and_are_served_though_nothing_can_be_written(disk: SmallDisk, attacked: Attacked) -> None:
    with attacked.peer() as first, attacked.peer() as second, attacked.peer() as client:
        join(first, "early")
        before = attacked.counters()
        with disk.full(but_for=8192):
            join(second, "late", topic_count=500)  # its lines need ten times the room there is
            assert broker_addresses(client.ask(route_request("late-499"))) == {"late": "late:10911"}
            assert broker_addresses(client.ask(route_request("early-0"))) == {"early": "early:10911"}
            failed = "journal_failures_total", "snapshot_failures_total"
            wait_for(
                lambda: all(attacked.counters()[name] > before[name] for name in failed),
                "journal and snapshot have failed",
            )
            numbers = journal_numbers(disk.data)
        join(client, "after")
        later = wait_for(lambda: journal_numbers(disk.data)[len(numbers) :], "the journal goes on")
        assert later[0] >= numbers[-1] + 500  # the numbers of lines that could not be written are not given again
        wait_for(lambda: b"after-0" in snapshot_of(disk), "the snapshot is written again")
        page = client.ask(request(RequestCode.READ_ROUTE_JOURNAL, {"fromSequence": "1", "maxLines": "1000"}))
        assert [msgspec.json.decode(line)["seq"] for line in page.body.splitlines()] == numbers + later
    assert "Traceback" not in disk.output()


def test_what_was_kept_is_there_after_a_restart(disk: SmallDisk, attacked: Attacked, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    with attacked.peer() as peer:
        assert put(peer, "kept", "1").code == ResponseCode.SUCCESS
        join(peer, "early")
        wait_for(lambda: b"early-0" in snapshot_of(disk), "the snapshot is written")
        with disk.full():
            assert put(peer, "lost", "2").code == ResponseCode.SYSTEM_ERROR
            join(peer, "unwritten")
            shutil.copytree(disk.data, copy, ignore=shutil.ignore_patterns("*filler"))
    with NameServer(work_dir=tmp_path / "second", data_dir=copy) as server, RawPeer(server.port) as peer:
        assert (get(peer, "kept"), get(peer, "lost")) == ("1", None)
        answer = peer.ask(route_request("early-0"))
        assert broker_addresses(answer) == {"early": "early:10911"}
        assert answer.fields()["restored"] == "true"
        numbers = journal_numbers(copy)
        join(peer, "early")
        join(peer, "new")
        later = wait_for(lambda: journal_numbers(copy)[len(numbers) :], "the journal goes on")
        assert later[0] > numbers[-1]


def snapshot_of(disk: SmallDisk) -> bytes:
    path = disk.data / "routes.json"
    return path.read_bytes() if path.exists() else b""


def test_it_stops_in_order_and_says_that_the_snapshot_is_lost(tmp_path: Path) -> None:
    with SmallDisk(tmp_path) as disk, RawPeer(disk.port) as peer:
        join(peer, "early")
        with disk.full():
            assert disk.stop() == 0
            if disk.is_mounted:
                assert "the route snapshot is out of date" in disk.output()


def test_that_the_log_file_cannot_be_written_is_said_once_on_the_terminal(disk: SmallDisk, attacked: Attacked) -> None:
    before = len(attacked.lines_about("cannot log to "))
    with attacked.peer() as peer:
        with disk.full():
            for number in range(200):
                join(peer, f"noisy-{number}")
        join(peer, "relieved")
    assert len(attacked.lines_about("cannot log to ")) == before + int(disk.is_mounted)
    assert "Traceback" not in disk.output()
    log_file = disk.data / "logs" / "namesrv.log"
    wait_for(lambda: "relieved-0" in log_file.read_text(), "the log goes on")


def test_it_serves_and_stops_in_order_when_not_even_the_terminal_takes_a_line(tmp_path: Path) -> None:
    """As when it was started with its output sent to a file on the disk that is full."""
    with SmallDisk(tmp_path, is_mounted=False) as disk, RawPeer(disk.port) as peer:
        join(peer, "early")
        with disk.full():
            join(peer, "late")
            assert put(peer, "lost", "1").code == ResponseCode.SYSTEM_ERROR
            assert broker_addresses(peer.ask(route_request("late-0"))) == {"late": "late:10911"}
            peer.send(b"\xff\xff\xff\xff")
            assert peer.ended()
            assert disk.stop() == 0
