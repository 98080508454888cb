"""The servers of a `with` block work while it lasts and are gone afterwards."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from apogeemq.blocking import Producer
from apogeemq.embedded import local_cluster
from apogeemq.embedded.local_cluster import LocalCluster
from apogeemq.errors import ConnectFailed


def is_open(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def test_it_serves_and_ends(tmp_path: Path) -> None:
    with LocalCluster(tmp_path) as cluster, Producer(cluster.name_server, group="test") as producer:
        assert producer.send("orders", b"one").queue.broker_name == "broker-a"
        addresses = (cluster.name_server, cluster.broker)
        assert all(map(is_open, addresses))
    assert not any(map(is_open, addresses))


def test_a_server_that_does_not_start_is_an_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broker").write_text("a file where a folder should be")
    started: list[str] = []
    start = LocalCluster._start

    def noted(self: LocalCluster, *args: object) -> str:
        started.append(start(self, *args))  # type: ignore[arg-type]
        return started[-1]

    monkeypatch.setattr(local_cluster.LocalCluster, "_start", noted)
    with pytest.raises(ConnectFailed, match="apogee broker ended before it was ready"), LocalCluster(tmp_path):
        pass
    assert len(started) == 1
    assert not is_open(started[0])
