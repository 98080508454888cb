"""Our servers, started as a user starts them: the command line in a process of its own."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.peers.netns import NetNamespace
from tests.peers.process import Process, free_port

BOOT_LINE = r"The Name Server boot success\. serializeType=JSON, address (\S+):(\d+)"
BROKER_BOOT_LINE = r"The broker\[.*\] boot success"


class NameServer(Process):
    """`apogee namesrv` on 127.0.0.1. After the first start it keeps its port, as a restarted server does."""

    def __init__(
        self,
        *,
        work_dir: Path,
        port: int = 0,
        data_dir: Path | None = None,
        args: Sequence[str] = (),
        netns: NetNamespace | None = None,
    ) -> None:
        self._args = tuple(args)
        self._data_dir = data_dir or work_dir / "data"
        self.port = port
        super().__init__((), name="namesrv", work_dir=work_dir, ready=BOOT_LINE, netns=netns)

    def command(self) -> Sequence[str]:
        return (
            *(sys.executable, "-m", "apogeemq.cli.main", "namesrv"),
            *("--bind", "127.0.0.1", "--port", str(self.port)),
            *("--data", str(self._data_dir), "--log-dir", str(self.work_dir / "logs")),
            *self._args,
        )

    def wait_until_ready(self) -> None:
        super().wait_until_ready()
        assert self.ready_match is not None
        self.port = int(self.ready_match[2])

    def forget(self) -> None:
        """Remove what it keeps between starts."""
        assert not self.is_running()
        shutil.rmtree(self._data_dir, ignore_errors=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


class Broker(Process):
    """`apogee broker` on 127.0.0.1, with Apache's property names in a file. Its store survives a restart."""

    def __init__(
        self,
        namesrv_addr: str,
        *,
        work_dir: Path,
        name: str = "broker-a",
        cluster: str = "DefaultCluster",
        listen_port: int = 0,
        data_dir: Path | None = None,
        properties: Mapping[str, object] | None = None,
        args: Sequence[str] = (),
        netns: NetNamespace | None = None,
    ) -> None:
        self.port = listen_port or (netns.free_port() if netns else free_port(-2, 1))
        self.broker_name = name
        self.cluster = cluster
        self._namesrv_addr = namesrv_addr
        self._data_dir = data_dir or work_dir / "store"
        self._properties = {
            "brokerName": name,
            "brokerClusterName": cluster,
            "mappedFileSizeCommitLog": 16 << 20,
            "diskMaxUsedSpaceRatio": 99,  # the machine's disk is not the test's business
            "registerNameServerPeriod": 10_000,  # the shortest it accepts
            **(properties or {}),
        }
        self._args = tuple(args)
        super().__init__((), name="broker", work_dir=work_dir, ready=BROKER_BOOT_LINE, netns=netns)

    def command(self) -> Sequence[str]:
        config = self.work_dir / "broker.conf"
        config.write_text("".join(f"{key}={value}\n" for key, value in self._properties.items()))
        return (
            *(sys.executable, "-m", "apogeemq.cli.main", "broker", "-c", str(config)),
            *(("-n", self._namesrv_addr) if self._namesrv_addr else ()),
            *("--bind", "127.0.0.1", "--port", str(self.port)),
            *("--data", str(self._data_dir), "--log-dir", str(self.work_dir / "logs")),
            *self._args,
        )

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"
