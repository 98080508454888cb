"""Our servers, started as a user starts them: the command line in a process of its own."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.peers.netns import NetNamespace
from tests.peers.process import Process

BOOT_LINE = r"The Name Server boot success\. serializeType=JSON, address (\S+):(\d+)"


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
