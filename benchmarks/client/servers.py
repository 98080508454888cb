"""The servers the clients are measured with: our broker, Apache's with its proxy, and a Kafka broker for aiokafka."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import UUID

from benchmarks.broker.contenders import FIXED_HEAP, HEAP, PROPERTIES
from tests.peers import apache, ours
from tests.peers.process import START_TIMEOUT_S, PeerError, Process, free_port, wait_for

KAFKA_VERSION = "3.9.1"
QUEUES = 8

_KAFKA_HEAP = "1g"
_PROXY_HEAP = "512m"
_CLUSTER_ID = UUID(int=1).hex[:22]


class Proxy(Process):
    """Apache's proxy in front of a cluster: gRPC for its clients of the 5.x kind."""

    def __init__(self, name_server: str, *, work_dir: Path) -> None:
        self.port = free_port()
        library = apache.resolve_jars(
            f"Apache's proxy {apache.V5}", f"proxy-{apache.V5}", [f"org.apache.rocketmq:rocketmq-proxy:{apache.V5}"]
        )
        work_dir.mkdir(parents=True, exist_ok=True)
        config = work_dir / "proxy.json"
        config.write_text(
            json.dumps(
                {
                    "rocketMQClusterName": "DefaultCluster",
                    "proxyClusterName": "DefaultCluster",
                    "localServeAddr": "127.0.0.1",
                    "grpcServerPort": self.port,
                    "remotingListenPort": free_port(),
                }
            )
        )
        main = ["org.apache.rocketmq.proxy.ProxyStartup", "-pc", str(config), "-n", name_server]
        command = apache.java_command(apache.V5, work_dir, main, heap=_PROXY_HEAP)
        command[command.index("-cp") + 1] = f"{library}/*"
        super().__init__(command, name="proxy", work_dir=work_dir, ready="startup successfully")

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


class Kafka(Process):
    """A Kafka broker that is its own controller."""

    def __init__(self, *, work_dir: Path) -> None:
        self.port, controller = free_port(), free_port()
        library = apache.resolve_jars(
            f"Kafka {KAFKA_VERSION}", f"kafka-{KAFKA_VERSION}", [f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}"]
        )
        work_dir.mkdir(parents=True, exist_ok=True)
        self._config = work_dir / "server.properties"
        properties = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": work_dir / "logs",
            "num.partitions": QUEUES,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
        }
        self._config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        self._java = ["java", f"-Xmx{_KAFKA_HEAP}", f"-Xms{_KAFKA_HEAP}", "-cp", f"{library}/*"]
        super().__init__([*self._java, "kafka.Kafka", str(self._config)], name="kafka", work_dir=work_dir)

    def launch(self) -> None:
        self._tool("format", "-t", _CLUSTER_ID, "-c", str(self._config))
        super().launch()

    def wait_until_ready(self) -> None:
        """It says nothing: its jars come without a logger."""
        wait_for(self._listens, "Kafka listens", timeout_s=START_TIMEOUT_S)

    def _listens(self) -> bool:
        if not self.is_running():
            raise PeerError(f"Kafka ended:\n{self.tail()}")
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def _tool(self, *arguments: str) -> None:
        done = subprocess.run(
            [*self._java, "kafka.tools.StorageTool", *arguments], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"Kafka's storage tool: {(done.stdout + done.stderr)[-500:]}")

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


@contextlib.contextmanager
def our_cluster(folder: Path) -> Iterator[tuple[str, int]]:
    """The name server's address and the broker's port."""
    with (
        ours.NameServer(work_dir=folder / "namesrv", args=("--log-level", "warning")) as name_server,
        ours.Broker(
            name_server.address, work_dir=folder / "broker", properties=_properties(), args=("--log-level", "warning")
        ) as broker,
    ):
        yield name_server.address, broker.port


@contextlib.contextmanager
def apache_cluster(folder: Path) -> Iterator[tuple[str, int]]:
    jvm_args: Sequence[str] = FIXED_HEAP
    with (
        apache.NameServer(apache.V5, work_dir=folder / "namesrv") as name_server,
        apache.Broker(
            apache.V5,
            name_server.address,
            work_dir=folder / "broker",
            heap=HEAP,
            properties=_properties(),
            jvm_args=jvm_args,
        ) as broker,
    ):
        yield name_server.address, broker.port


def _properties() -> dict[str, object]:
    return {**PROPERTIES, "defaultTopicQueueNums": QUEUES}
