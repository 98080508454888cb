"""Start, memory, and the time until routes are served again after a crash."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Callable, Iterator

from benchmarks import load, made_up, wire
from benchmarks.contenders import SIDES, Contenders, Server, Side, address, closed_loop
from benchmarks.made_up import Brokers, Cluster
from benchmarks.process import Memory, memory
from benchmarks.rows import Row, Target, alternate, rows
from benchmarks.settings import Settings
from tests.peers.process import free_port

SMALL = Cluster(8, 200)
LARGE = Cluster(100, 5_000)
REGISTER_PERIOD_S = 30.0
"""A broker's `registerNameServerPeriod`; nothing makes it register earlier when the name server comes back."""

SETTLE_S = 5.0
"""How long the cluster has been up before the crash; what came in the last moment may be lost to any snapshot."""

WARM_S = 5.0

_GET_CLUSTER_INFO = 106
_MB = ("all resident", "anonymous", "proportional share")

Say = Callable[[str], None]


def start(contenders: Contenders, settings: Settings, say: Say) -> Iterator[Row]:
    """From the process's start to its first answer."""
    case = "start to first answer"
    say(case)

    def one_round(side: Side) -> dict[str, float]:
        server = contenders.make(side)
        server.port = server.port or free_port()
        with _started(server) as (_, seconds):
            return {"time": seconds}

    yield from rows(
        case, alternate(min(settings.rounds, 5), one_round), {"time": "s"}, {"time": Target(None, 0.5, True)}
    )


@contextlib.contextmanager
def _started(server: Server) -> Iterator[tuple[subprocess.Popen[bytes], float]]:
    """The server's process, and the seconds from its start to its first answer."""
    began = time.perf_counter()
    with (
        (server.work_dir / "stderr").open("wb") as errors,
        subprocess.Popen(server.command(), cwd=server.work_dir, stdout=subprocess.PIPE, stderr=errors) as child,
    ):
        try:
            assert child.stdout is not None
            while b"boot success" not in (line := child.stdout.readline()):
                assert line, "the server ended without its boot line"
            with contextlib.closing(wire.connect(*address(server))) as sock:
                wire.ask(sock, wire.encode(_GET_CLUSTER_INFO, {}, opaque=1))
            yield child, time.perf_counter() - began
        finally:
            child.kill()


def memory_use(contenders: Contenders, settings: Settings, say: Say) -> Iterator[Row]:
    """Resident memory: idle, with a small and with a large cluster, and with every route asked.

    *Warm* is after route queries for some seconds. A name server that has just been started is the exception, and Java
    is measured warm everywhere: targets for small clusters are held against the warm one, as Apache's own start script
    runs it, with the heap's full size from the start.
    """
    tenth, third = {_MB[0]: Target(at_most=0.1)}, {_MB[0]: Target(at_most=1 / 3)}
    stages = {
        "idle, just started": None,
        f"{SMALL}, just started": None,
        f"{SMALL}, warm": tenth,
        "idle, warm": tenth,
        f"{LARGE}": third,
        f"{LARGE}, every route asked once": third,
    }
    for heap, fixed in (("heap of 1 GB from the start", True), ("heap that grows to 1 GB", False)):
        say(f"memory, Apache with a {heap}")
        found: dict[str, dict[str, dict[Side, list[float]]]] = {}
        for _ in range(1 if settings.quick else 3):
            for side in SIDES:
                for stage, used in _memory_stages(contenders, side, fixed_heap=fixed).items():
                    for metric, value in zip(_MB, used, strict=True):
                        by_side = found.setdefault(stage, {}).setdefault(metric, {"ours": [], "apache": []})
                        by_side[side].append(value)
        units = dict.fromkeys(_MB, "MB")
        for stage, target in stages.items():
            yield from rows(f"memory {stage} (Apache: {heap})", found[stage], units, target if fixed else None)


def _memory_stages(contenders: Contenders, side: Side, *, fixed_heap: bool) -> dict[str, Memory]:
    stages = {}
    with contenders.make(side, fixed_heap=fixed_heap) as server:
        _ask_everything(server, Cluster(0, 0))
        stages["idle, just started"] = memory(server.pid)
        with Brokers(SMALL, address(server)):
            stages[f"{SMALL}, just started"] = memory(server.pid)
            host, port = address(server)
            closed_loop(load.Job(host, port, server.pid, SMALL, WARM_S, connections=16, in_flight=32))
            stages[f"{SMALL}, warm"] = memory(server.pid)
        _ask_everything(server, Cluster(0, 0))
        stages["idle, warm"] = memory(server.pid)
    with (
        contenders.make(side, fixed_heap=fixed_heap) as server,
        contextlib.closing(Brokers(LARGE, address(server))) as brokers,
    ):
        brokers.register()
        stages[f"{LARGE}"] = memory(server.pid)
        _ask_everything(server, LARGE)
        stages[f"{LARGE}, every route asked once"] = memory(server.pid)
    return stages


def _ask_everything(server: Server, cluster: Cluster) -> None:
    with contextlib.closing(wire.connect(*address(server))) as sock:
        wire.ask(sock, wire.encode(_GET_CLUSTER_INFO, {}, opaque=1))
        for frame in made_up.route_frames(cluster, cluster.topics):
            wire.ask(sock, frame)


def restart(contenders: Contenders, settings: Settings, say: Say) -> Iterator[Row]:
    """`kill -9` and an immediate start, with brokers that register every 30 s, evenly spread."""
    case = f"after kill -9 and restart, {SMALL}"
    say(f"{case} (half a minute a round)")

    def one_round(side: Side) -> dict[str, float]:
        with contenders.make(side) as server:
            schedule = _Schedule(SMALL, address(server))
            _wait_for_route(server, SMALL.brokers)
            time.sleep(SETTLE_S)
            killed = time.perf_counter()
            server.kill()
            schedule.begin()
        with contextlib.closing(schedule), _started(server):
            first = _wait_for_route(server, 1) - killed
            whole = _wait_for_route(server, SMALL.brokers) - killed
        return {"some route again": first, "whole route again": whole}

    found = alternate(1 if settings.quick else 2, one_round)
    yield from rows(case, found, dict.fromkeys(found, "s"))


class _Schedule:
    """Brokers that do what Apache's do: register on their own clock, and otherwise nothing."""

    def __init__(self, cluster: Cluster, where: tuple[str, int]) -> None:
        self._where = where
        self._frames = [made_up.register_frame(cluster, i) for i in range(cluster.brokers)]
        self._sockets = {i: wire.connect(*where) for i in range(cluster.brokers)}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        for broker in self._sockets:
            self._register(broker)

    def begin(self) -> None:
        """From now: broker i is next due after (i + 1) / n of the period."""
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        for sock in self._sockets.values():
            sock.close()

    def _run(self) -> None:
        count = len(self._frames)
        began = time.monotonic()
        tick = 0
        while True:
            due = began + (tick + 1) * REGISTER_PERIOD_S / count
            if self._ended.wait(max(0.0, due - time.monotonic())):
                return
            with contextlib.suppress(OSError):
                self._sockets[tick % count].close()
                self._sockets[tick % count] = wire.connect(*self._where)
                self._register(tick % count)
            tick += 1

    def _register(self, broker: int) -> None:
        wire.ask(self._sockets[broker], self._frames[broker])


def _wait_for_route(server: Server, brokers: int) -> float:
    """When a topic's route was first answered with that many brokers; asks every few milliseconds."""
    frame = made_up.route_frames(SMALL, 1)[0]
    with contextlib.closing(wire.connect(*address(server))) as sock:
        while True:
            sock.sendall(frame)
            answer = wire.receive(sock)
            now = time.perf_counter()
            if answer.header["code"] == 0 and len(made_up.brokers_in(answer)) >= brokers:
                return now
            time.sleep(0.005)
