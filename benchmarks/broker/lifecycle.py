"""Start with an empty and with a large store, and memory."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator

from benchmarks import wire
from benchmarks.broker import asking, drain_load, frames, send_load
from benchmarks.broker.contenders import Contenders, Server, address, drain, forget, send
from benchmarks.broker.frames import QUEUES
from benchmarks.contenders import SIDES, Side
from benchmarks.process import Memory, memory
from benchmarks.rows import Row, Target, alternate, rows
from benchmarks.runner import Say
from benchmarks.settings import Settings

RECORD_SIZE = 1024 + 91 + 17 + 62
"""Of a message of 1 KiB as the batches send it: body, fixed part, topic, properties."""
LOADED_S = 10.0
_MB = ("all resident", "anonymous", "proportional share")
_TOPIC = frames.topic_name(0)


def start_empty(contenders: Contenders, settings: Settings, say: Say) -> Iterator[Row]:
    """From the process's start to its first answer, with no store."""
    case = "start to first answer, empty store"
    say(case)

    def one_round(side: Side) -> dict[str, float]:
        server = contenders.make(side)
        with started(server) as (_, seconds):
            pass
        forget(server)
        return {"time": seconds}

    target = {"time": Target(None, 1.0, True)}
    yield from rows(case, alternate(min(settings.rounds, 5), one_round), {"time": "s"}, target)


def start_full(contenders: Contenders, settings: Settings, say: Say) -> Iterator[Row]:
    """The same with a large store that the broker wrote itself, after a clean stop and after `kill -9`."""
    size = (256 << 20) if settings.quick else (5 << 30)
    per_queue = -(-size // (RECORD_SIZE * QUEUES * 32)) * 32
    name = "256 MiB" if settings.quick else "5 GiB"
    servers = {side: contenders.make(side) for side in SIDES}
    for side, server in servers.items():
        say(f"start: writing a store of {name} with {side}")
        with server:
            asking.fill(address(server), _TOPIC, per_queue=per_queue, size=1024)
            server.stop()
    for how, stop in (("a clean stop", "stop"), ("kill -9", "kill")):
        case = f"start to first answer, store of {name}, after {how}"
        say(case)

        def one_round(side: Side, stop: str = stop) -> dict[str, float]:
            server = servers[side]
            with server:
                getattr(server, stop)()
            with started(server) as (child, seconds):
                with contextlib.closing(wire.connect(*address(server))) as sock:
                    asking.wait_until_stored(sock, [_TOPIC], per_queue * QUEUES)
                child.terminate()
                child.wait()
            return {"time": seconds}

        yield from rows(case, alternate(1 if settings.quick else 3, one_round), {"time": "s"})
    for server in servers.values():
        forget(server)


@contextlib.contextmanager
def started(server: Server) -> Iterator[tuple[subprocess.Popen[bytes], float]]:
    """The broker's process, and the seconds from its start to its first answer."""
    server.work_dir.mkdir(parents=True, exist_ok=True)
    command = server.command()
    began = time.perf_counter()
    with (
        (server.work_dir / "stderr").open("wb") as errors,
        subprocess.Popen(command, cwd=server.work_dir, stdout=subprocess.PIPE, stderr=errors) as child,
    ):
        try:
            assert child.stdout is not None
            while b"boot success" not in (line := child.stdout.readline()):
                assert line, "the broker ended without its boot line"
            with contextlib.closing(wire.connect(*address(server))) as sock:
                wire.ask(sock, frames.max_offset_frame("TBW102", 0))
            yield child, time.perf_counter() - began
        finally:
            child.kill()


def memory_use(contenders: Contenders, settings: Settings, say: Say) -> Iterator[Row]:
    """Resident memory: idle, after sends, after pulls of what was sent.

    Apache's heap may grow here, which uses less than its own start script takes from the start. What is resident
    includes pages of the mapped store, which the kernel takes back when it needs them; *anonymous* does not.
    """
    quarter = Target(at_most=0.25)
    stages = {
        "idle": dict.fromkeys(_MB, quarter),
        "after sends": {_MB[1]: quarter},
        "after sends and pulls": {_MB[1]: quarter},
    }
    say("memory")
    found: dict[str, dict[str, dict[Side, list[float]]]] = {}
    for _ in range(1 if settings.quick else 3):
        for side in SIDES:
            for stage, used in _memory_stages(contenders, side, settings).items():
                for metric, value in zip(_MB, used, strict=True):
                    by_side = found.setdefault(stage, {}).setdefault(metric, {"ours": [], "apache": []})
                    by_side[side].append(value)
    for stage, target in stages.items():
        yield from rows(f"memory, {stage}", found[stage], dict.fromkeys(_MB, "MB"), target)


def _memory_stages(contenders: Contenders, side: Side, settings: Settings) -> dict[str, Memory]:
    per_queue = 3_200 if settings.quick else 64_000
    seconds = settings.seconds if settings.quick else LOADED_S
    stages = {}
    with contenders.running(side, fixed_heap=False) as server:
        host, port = address(server)
        with contextlib.closing(wire.connect(host, port)) as sock:
            wire.ask(sock, frames.max_offset_frame("TBW102", 0))
        stages["idle"] = memory(server.pid)
        asking.fill((host, port), _TOPIC, per_queue=per_queue, size=1024)
        send(send_load.Job(host, port, server.pid, seconds, 1024, connections=16, in_flight=16))
        stages["after sends"] = memory(server.pid)
        drain(drain_load.Job(host, port, server.pid, _TOPIC, per_queue, 1024))
        stages["after sends and pulls"] = memory(server.pid)
    return stages
