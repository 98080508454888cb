"""The clients under comparison, each in a process of its own that stays warm between rounds."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.client.programs.commands import ANSWER, READY, Job
from tests.peers import apache
from tests.peers.process import PeerError, Process, wait_for

PACKAGES = {
    "rocketmq": ("rocketmq==0.4.4",),
    "rocketmq-python-client": ("rocketmq-python-client==5.1.2",),
    "aiokafka": ("aiokafka==0.14.0", "uvloop"),
}
_JAVA_HEAP = "1g"
_ANSWER_SECONDS = 120.0
_ROOT = Path(__file__).parent.parent.parent
_PROGRAMS = "benchmarks.client.programs"


class Result(msgspec.Struct):
    count: int
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    memory_mb: float = 0.0


class Client(Process):
    """A program of `programs/`, or the Java one."""

    def __init__(self, name: str, command: Sequence[str], *, work_dir: Path, python_path: str = "") -> None:
        env = {"HOME": str(work_dir), "PYTHONPATH": python_path}  # some write logs into the home folder
        super().__init__(command, name=name, work_dir=work_dir, ready=READY, env=env)
        self._answers = 0

    def run(self, job: Job) -> Result:
        """Started anew if it has ended: not every client survives its own end of work."""
        if not self.is_running():
            self._answers = 0
            self.start()
        self.say(json.dumps(job._asdict()))
        self._answers += 1
        answers = wait_for(self._enough_answers, f"{self.name}: {job}", timeout_s=_ANSWER_SECONDS)
        assert answers is not None
        return msgspec.json.decode(answers[-1], type=Result)

    def _enough_answers(self) -> list[str] | None:
        is_running = self.is_running()
        prefix = f"{ANSWER}{{"
        answers = [line[len(ANSWER) :] for line in self.output().splitlines(keepends=True) if line.startswith(prefix)]
        if len(answers) >= self._answers and answers[-1].endswith("\n"):
            return answers
        if not is_running:
            raise PeerError(f"{self.name} ended:\n{self.tail()}")
        return None


def ours(server: str, work_dir: Path, *, loop: str = "uvloop") -> Client:
    python_path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(_ROOT))))
    return Client("ours", _python(sys.executable, "apogee", server, loop), work_dir=work_dir, python_path=python_path)


def ours_blocking(server: str, work_dir: Path) -> Client:
    python_path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(_ROOT))))
    command = _python(sys.executable, "apogee_blocking", server)
    return Client("ours-blocking", command, work_dir=work_dir, python_path=python_path)


def bare(broker: str, work_dir: Path) -> Client:
    return Client("bare", _python(sys.executable, "bare", broker), work_dir=work_dir, python_path=str(_ROOT))


def java(server: str, work_dir: Path) -> Client:
    """Compiled here, with the jars of the version the servers have."""
    source = Path(__file__).parent / "java" / "ClientLoad.java"
    classes = work_dir / "classes"
    library = apache.resolve(apache.V5)
    work_dir.mkdir(parents=True, exist_ok=True)
    compiler = ["javac", "-nowarn", "-d", str(classes), "-cp", f"{library}/*", str(source)]
    compiled = subprocess.run(compiler, capture_output=True, text=True, check=False)
    if compiled.returncode:
        raise apache.PeersUnavailable(f"javac: {compiled.stderr[-500:]}")
    command = apache.java_command(
        apache.V5, work_dir, ["ClientLoad", server], heap=_JAVA_HEAP, jvm_args=(f"-Xms{_JAVA_HEAP}",)
    )
    command[command.index("-cp") + 1] += f":{classes}"
    return Client("java", command, work_dir=work_dir)


def foreign(package: str, program: str, server: str, work_dir: Path) -> Client:
    """A client of PyPI's in a virtual environment of its own, outside of this tree."""
    python = environment(package) / "bin" / "python"
    return Client(package, _python(str(python), program, server), work_dir=work_dir, python_path=str(_ROOT))


def environment(package: str) -> Path:
    """Made on first use. PeersUnavailable when the package cannot be had or imported here."""
    folder = apache.cache_folder() / "clients" / package
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            _run(package, [sys.executable, "-m", "venv", "--clear", str(folder)])
            _run(package, [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", *PACKAGES[package]])
            (folder / "done").touch()
    return folder


def _run(package: str, command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        problem = (done.stderr or done.stdout).strip().splitlines()
        raise apache.PeersUnavailable(f"{package} cannot be installed: {problem[-1] if problem else 'no reason given'}")


def _python(python: str, program: str, *arguments: str) -> list[str]:
    return [python, "-m", f"{_PROGRAMS}.{program}", *arguments]
