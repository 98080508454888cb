"""A real standalone cluster of Spark's: a master and two workers from PySpark's own jars, on 127.0.0.1."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import pyspark

from apogeemq.spark.runtime.java import find_java
from tests.peers.process import Process, free_port, wait_for
from tests.spark.processes import command_line, family, kill

WORKERS = 2
EXECUTOR_MAIN = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_SPARK = Path(pyspark.__file__).parent
_LOG_SETTINGS = """\
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.target = SYSTEM_OUT
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n%ex
"""


class Driver(Process):
    """A program with a Spark driver in it. Killed, its JVM is killed at the same moment."""

    def kill(self) -> int | None:
        if self.is_running():
            kill(family(self.pid)[1:])
        return super().kill()


class Standalone:
    """Started on entry, gone on exit; logs and work folders of the executors are under `folder`."""

    def __init__(self, folder: Path, *, cores: int = 1, memory: str = "1g") -> None:
        self.folder = folder
        self._java_home = str(find_java().home)
        self._port = free_port()
        self._settings = folder / "conf"
        self.master = self._daemon(
            "master",
            "org.apache.spark.deploy.master.Master",
            *("--host", "127.0.0.1", "--port", str(self._port), "--webui-port", "0"),
            ready="New state: ALIVE",
        )
        self.workers = tuple(
            self._daemon(
                f"worker-{number}",
                "org.apache.spark.deploy.worker.Worker",
                *("--host", "127.0.0.1", "--webui-port", "0", "--cores", str(cores), "--memory", memory),
                *("--work-dir", str(folder / f"worker-{number}" / "work"), self.url),
                ready="Successfully registered with master",
            )
            for number in range(WORKERS)
        )

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self._settings.mkdir(parents=True, exist_ok=True)
        (self._settings / "log4j2.properties").write_text(_LOG_SETTINGS)
        try:
            self.master.start()
            for worker in self.workers:
                worker.launch()
            for worker in self.workers:
                worker.wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        ending = [pid for worker in self.workers if worker.is_running() for pid in family(worker.pid)]
        self.master.kill()
        for worker in self.workers:
            worker.kill()
        kill(ending)

    def driver(
        self, name: str, program: Path, args: Sequence[str] = (), env: Mapping[str, str] | None = None
    ) -> Driver:
        """A Python program that is told the master's address in SPARK_MASTER; not yet started.

        Its executors run this Python, unless `env` has another PYSPARK_PYTHON.
        """
        return self._driver(name, [sys.executable, str(program), *args], env or {})

    def submitted(
        self, name: str, options: Sequence[str], program: Path, args: Sequence[str], env: Mapping[str, str]
    ) -> Driver:
        """The same by `spark-submit`, with these options."""
        command = [str(_SPARK / "bin" / "spark-submit"), "--master", self.url, *options, str(program), *args]
        return self._driver(name, command, {"PYSPARK_DRIVER_PYTHON": sys.executable, **env})

    def _driver(self, name: str, command: list[str], env: Mapping[str, str]) -> Driver:
        told = {
            "SPARK_MASTER": self.url,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(filter(None, (str(Path.cwd()), os.environ.get("PYTHONPATH")))),
            **self._environment,
            **env,
        }
        return Driver(command, name=name, work_dir=self.folder / "drivers", env=told)

    def executors(self) -> list[int]:
        """The processes that run tasks now."""
        found = []
        for worker in self.workers:
            with contextlib.suppress(AssertionError):
                found += [pid for pid in family(worker.pid) if EXECUTOR_MAIN in command_line(pid)]
        return found

    def kill_executor(self, number: int = 0) -> int:
        """One of those that run, with the Python workers it has; waits for one to kill."""
        running = sorted(wait_for(self.executors, "an executor runs", timeout_s=120))
        pid = running[number % len(running)]
        kill(family(pid))
        return pid

    def wait_until_idle(self) -> None:
        """No executor is left of a driver that has ended."""
        wait_for(lambda: not self.executors(), "the executors have ended", timeout_s=120)

    @property
    def _environment(self) -> dict[str, str]:
        return {"JAVA_HOME": self._java_home, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(_SPARK)}

    def _daemon(self, name: str, main: str, *args: str, ready: str) -> Process:
        env = {**self._environment, "SPARK_CONF_DIR": str(self._settings), "SPARK_DAEMON_MEMORY": "384m"}
        command = (str(_SPARK / "bin" / "spark-class"), main, *args)
        return Process(command, name=name, work_dir=self.folder / name, ready=ready, env=env)
