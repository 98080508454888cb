"""A real Apache master, slave, producer and consumer live on our name server: 5.x and 4.9, each with its own tools."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.peers import apache, ours
from tests.peers.netns import NetNamespace
from tests.peers.process import Process, wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

CLUSTER = "DefaultCluster"
BROKER = "broker-a"
MESSAGES = 20_000 if os.environ.get("APOGEE_SOAK") else 1_000
RESTARTS = 10 if os.environ.get("APOGEE_SOAK") else 1
REGISTERED_TIMEOUT_S = 90.0
"""Brokers register again every 10 s; the rest is for a busy machine."""


@dataclass
class Cluster:
    version: str
    folder: Path
    netns: NetNamespace
    name_server: ours.NameServer
    master: apache.Broker
    slave: apache.Broker
    mqadmin: apache.AdminShell

    def ask(self, command: str) -> str:
        return self.mqadmin.run(*command.split(), "-n", self.name_server.address)

    def brokers(self) -> dict[int, str]:
        """Broker id → address, as `clusterList` shows them."""
        rows = re.findall(rf"^{CLUSTER} +{BROKER} +(\d+) +(\S+)", self.ask("clusterList"), re.M)
        return {int(broker_id): address for broker_id, address in rows}

    def route(self, topic: str) -> dict[int, str]:
        """Broker id → address, as `topicRoute` shows them; empty when there is no route."""
        answer = self.ask(f"topicRoute -t {topic}")
        if f"No topic route info in name server for the topic: {topic}" in answer:
            return {}
        assert f'"brokerName":"{BROKER}"' in answer, answer
        return {int(broker_id): address for broker_id, address in re.findall(r'(\d+):"([\d.]+:\d+)"', answer)}

    def wait_for_route(self, topic: str, *brokers: tuple[int, apache.Broker]) -> None:
        expected = {broker_id: broker.address for broker_id, broker in brokers}
        wait_for(
            lambda: self.route(topic) == expected,
            f"the route of {topic} leads to {expected}",
            timeout_s=REGISTERED_TIMEOUT_S,
        )

    def replace_name_server(self) -> None:
        """Another one at the same address, which remembers nothing."""
        self.name_server.kill()
        self.name_server.forget()
        self.name_server.start()

    def commit_log_end(self, broker: apache.Broker) -> int:
        found = re.search(r"^commitLogMaxOffset +: (\d+)", self.ask(f"brokerStatus -b {broker.address}"), re.M)
        assert found
        return int(found[1])


@pytest.fixture(scope="module", params=apache.VERSIONS)
def cluster(
    request: pytest.FixtureRequest,
    make_netns: Callable[[], NetNamespace],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Cluster]:
    version: str = request.param
    netns = make_netns()
    folder = tmp_path_factory.mktemp("cluster")
    with contextlib.ExitStack() as processes:

        def start(process: Process) -> None:
            processes.callback(process.kill)
            process.start()

        def broker(broker_id: int) -> apache.Broker:
            return apache.Broker(
                version,
                name_server.address,
                work_dir=folder / f"broker-{broker_id}",
                name=BROKER,
                cluster=CLUSTER,
                broker_id=broker_id,
                properties={"slaveReadEnable": "true"},  # 5.x slaves refuse readers without it
                netns=netns,
                jvm_args=apache.QUICK_START,
            )

        name_server = ours.NameServer(work_dir=folder / "namesrv", netns=netns)
        mqadmin = apache.AdminShell(version, work_dir=folder / "mqadmin", netns=netns)
        processes.callback(mqadmin.kill)
        mqadmin.launch()
        start(name_server)
        master, slave = broker(0), broker(1)
        start(master)
        start(slave)
        mqadmin.wait_until_ready()
        cluster = Cluster(version, folder, netns, name_server, master, slave, mqadmin)
        # On a busy machine a broker's first registration may time out; it tries again.
        cluster.wait_for_route("TBW102", (0, master), (1, slave))
        yield cluster


def test_routes_appear(cluster: Cluster) -> None:
    expected = {0: cluster.master.address, 1: cluster.slave.address}
    assert cluster.route("TBW102") == expected
    assert cluster.brokers() == expected
    assert cluster.route("NoSuchTopic") == {}


def test_slave_finds_its_master(cluster: Cluster) -> None:
    """Only the name server tells a slave where its master is; that it replicates shows that it was told."""
    cluster.ask(f"updateTopic -c {CLUSTER} -t Replicated -r 1 -w 1")
    assert "SEND_OK" in cluster.ask("sendMessage -t Replicated -p body")
    wait_for(
        lambda: 0 < cluster.commit_log_end(cluster.master) == cluster.commit_log_end(cluster.slave),
        "the slave has what the master has",
    )


def test_restarted_name_server_serves_at_once(cluster: Cluster) -> None:
    """It remembers the routes, so clients notice nothing."""
    before = cluster.ask("topicRoute -t Replicated")
    assert cluster.name_server.stop() == 0
    cluster.name_server.start()
    assert cluster.ask("topicRoute -t Replicated") == before


def test_brokers_register_with_a_new_name_server(cluster: Cluster) -> None:
    """After the old one was killed the brokers come by themselves."""
    before = cluster.ask("topicRoute -t Replicated")
    cluster.replace_name_server()
    cluster.wait_for_route("Replicated", (0, cluster.master), (1, cluster.slave))
    assert cluster.ask("topicRoute -t Replicated") == before
    assert cluster.brokers() == {0: cluster.master.address, 1: cluster.slave.address}


def test_messages_flow_while_the_name_server_restarts(cluster: Cluster) -> None:
    cluster.ask(f"updateTopic -c {CLUSTER} -t Exchange -r 4 -w 4")
    cluster.wait_for_route("Exchange", (0, cluster.master), (1, cluster.slave))
    with apache.run_program(
        cluster.version,
        "Exchange.java",
        cluster.name_server.address,
        "Exchange",
        str(MESSAGES),
        work_dir=cluster.folder / "exchange",
        netns=cluster.netns,
    ) as exchange:
        exchange.wait_for_output("^under way", timeout_s=300)
        for _ in range(RESTARTS):
            cluster.name_server.stop()
            cluster.name_server.start()
        exchange.say("go on")
        exchange.wait_for_output(f"^received {MESSAGES} of {MESSAGES}", timeout_s=300)
        assert exchange.wait() == 0


def test_departed_brokers_leave_the_routes(cluster: Cluster) -> None:
    """The last test of the module: it takes the cluster apart."""
    both = (0, cluster.master), (1, cluster.slave)
    # A restarted name server trusts its memory until the brokers have registered again; this one has none.
    cluster.replace_name_server()
    cluster.wait_for_route("Replicated", *both)
    topics_of_slave = cluster.slave.work_dir / "store" / "config" / "topics.json"
    # It asks for them once in a while; what it asks while the name server changes, it asks again the next time.
    wait_for(lambda: "Replicated" in topics_of_slave.read_text(), "the slave has the master's topics", timeout_s=200)

    cluster.master.kill()
    cluster.wait_for_route("Replicated", both[1])
    # What the master had acknowledged is read from the slave, which the client finds in the route.
    message = cluster.ask(f"queryMsgByOffset -t Replicated -b {BROKER} -i 0 -o 0")
    body = re.search(r"^Message Body Path: +(\S+)", message, re.M)
    assert body, message
    Path(body[1]).unlink()  # mqadmin saves it in a folder of its own choice

    cluster.master.start()
    cluster.wait_for_route("Replicated", *both)
    cluster.master.stop()
    cluster.wait_for_route("Replicated", both[1])

    cluster.slave.kill()
    cluster.wait_for_route("Replicated")
    assert cluster.brokers() == {}
    assert cluster.route("TBW102") == {}
