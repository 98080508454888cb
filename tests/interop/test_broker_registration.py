"""Our broker at Apache's name servers, as Apache's `mqadmin` sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.peers import apache, ours
from tests.peers.netns import NetNamespace
from tests.peers.process import wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

PLAIN, PACKED = "broker-plain", "broker-packed"


class World(NamedTuple):
    name_server: apache.NameServer
    mqadmin: apache.AdminShell
    plain: ours.Broker
    packed: ours.Broker

    def ask(self, *command: str) -> str:
        return self.mqadmin.run(*command, "-n", self.name_server.address)

    def until(self, said: str, *command: str) -> str:
        def answer() -> str | None:
            text = self.ask(*command)
            return text if said in text else None

        return wait_for(answer, f"{said!r} in the answer to {' '.join(command)}") or ""

    def wait_for_brokers(self) -> None:
        for broker in (self.plain, self.packed):
            self.until(broker.address, "clusterList")


@pytest.fixture(params=apache.VERSIONS)
def world(request: pytest.FixtureRequest, make_netns: Callable[[], NetNamespace], tmp_path: Path) -> Iterator[World]:
    version, netns = request.param, make_netns()
    name_server = apache.NameServer(version, work_dir=tmp_path / "namesrv", netns=netns)
    mqadmin = apache.AdminShell(version, work_dir=tmp_path / "mqadmin", netns=netns)
    plain, packed = (
        ours.Broker(
            name_server.address,
            work_dir=tmp_path / name,
            name=name,
            properties={"registerNameServerPeriod": 60_000, "compressedRegister": is_packed},
            netns=netns,
        )
        for name, is_packed in ((PLAIN, "false"), (PACKED, "true"))
    )
    with mqadmin, name_server, plain, packed:
        yield World(name_server, mqadmin, plain, packed)


def test_from_the_first_word_to_the_last(world: World) -> None:
    # At once, in both forms of the body.
    world.wait_for_brokers()
    route = world.ask("topicRoute", "-t", "TBW102")
    for broker in (PLAIN, PACKED):
        assert broker in route
    assert route.count('"perm":7') == 2, route
    assert route.count('"readQueueNums":8') == 2, route

    # A new topic, long before the next period.
    for broker in (PLAIN, PACKED):
        world.ask("sendMessage", "-t", f"new-{broker}", "-p", "body", "-b", broker, "-i", "0")
        world.until(f'"brokerName":"{broker}"', "topicRoute", "-t", f"new-{broker}")
    assert '"perm":7' in world.ask("topicRoute", "-t", "TBW102")

    # A name server that comes back knows nothing, and is told all.
    world.name_server.kill()
    world.name_server.start()
    world.wait_for_brokers()
    topics = world.ask("topicList")
    for broker in (PLAIN, PACKED):
        assert f"new-{broker}" in topics

    # A farewell.
    assert world.plain.stop() == 0
    wait_for(lambda: PLAIN not in world.ask("clusterList"), "the broker is gone")
    assert PACKED in world.ask("clusterList")
