"""The two Sparks under comparison, each with the broker it reads and writes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from benchmarks.spark.jobs import ANSWER, READY, Answer, Job
from benchmarks.spark.process_tree import Cpu, Usage, Watch, kill
from tests.peers.apache import resolve_jars
from tests.peers.process import PeerError, Process, wait_for

Side = Literal["ours", "kafka"]
SIDES: tuple[Side, Side] = ("ours", "kafka")

CONNECTOR_VERSION = "4.2.0"
_ANSWER_SECONDS = 1_800.0
_START_SECONDS = 300.0
_END_SECONDS = 30.0
_POLL_S = 0.03
_ROOT = Path(__file__).parent.parent.parent
# The connector and what it needs beyond what comes with Spark, in the versions its pom names; of the token provider the
# newest that is published.
_ARTIFACTS = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{CONNECTOR_VERSION}",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)


class Result(NamedTuple):
    answer: Answer
    cpu: Cpu


class Spark(Process):
    """`program`, in a process of its own that stays warm between rounds."""

    def __init__(self, name: str, *, work_dir: Path, jars: Sequence[str] = ()) -> None:
        work_dir.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "benchmarks.spark.program", str(work_dir), *jars]
        python_path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(_ROOT))))
        env = {"PYTHONPATH": python_path, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        super().__init__(
            command, name=f"spark-{name}", work_dir=work_dir, ready=READY, env=env, start_timeout_s=_START_SECONDS
        )
        self._answers = 0
        self._watch: Watch | None = None

    def start(self) -> None:
        super().start()
        self._answers = 0
        self._watch = Watch(self.pid)
        self._watch.__enter__()

    def __exit__(self, *_: object) -> None:
        """Nothing of it stays: the end of its input ends the program, that ends the JVM, and that the workers."""
        left: list[Usage] = []
        if self._watch is not None:
            self._watch.__exit__()
            left = self._watch.living()
        child = self._child
        if child is not None and child.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                child.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_END_SECONDS)
        self.kill()
        for process in left:
            kill(process)

    def cpu(self) -> Cpu:
        """Used since it was started; the program that takes the jobs is not counted."""
        assert self._watch is not None
        return self._watch.cpu()

    def run(self, job: Job) -> Result:
        before = self.cpu()
        self.say(msgspec.json.encode(job).decode())
        self._answers += 1
        line = wait_for(self._next_answer, f"{self.name}: {job}", timeout_s=_ANSWER_SECONDS, interval_s=_POLL_S)
        after = self.cpu()
        answer = msgspec.json.decode(line, type=Answer)
        if answer.problem:
            raise PeerError(f"{self.name}: {job}: {answer.problem}")
        return Result(answer, Cpu(after.java - before.java, after.python - before.python))

    def _next_answer(self) -> str:
        is_running = self.is_running()
        lines = [line for line in self.output().splitlines(keepends=True) if line.startswith(f"{ANSWER}{{")]
        if len(lines) >= self._answers and lines[-1].endswith("\n"):
            return lines[-1][len(ANSWER) :]
        if not is_running:
            raise PeerError(f"{self.name} ended:\n{self.tail()}")
        return ""


def ours(work_dir: Path) -> Spark:
    return Spark("ours", work_dir=work_dir)


def kafka(work_dir: Path) -> Spark:
    """With the connector's jars, that Maven resolves once into the cache."""
    library = resolve_jars(
        f"Spark's Kafka source {CONNECTOR_VERSION}", f"spark-kafka-{CONNECTOR_VERSION}", _ARTIFACTS, alone=True
    )
    return Spark("kafka", work_dir=work_dir, jars=[str(jar) for jar in sorted(library.glob("*.jar"))])
