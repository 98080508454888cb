"""A streaming query on the standalone cluster under trial: its driver, its executors and the servers it reads from are
killed while it works, and started again."""

from __future__ import annotations

import contextlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.peers.process import wait_for
from tests.spark.processes import connections_to, family
from tests.spark.standalone import Driver, Standalone
from tests.spark.worlds import World

DRIVER, EXECUTOR, BROKER, NAME_SERVER = "driver", "executor", "broker", "name server"
VICTIMS = (DRIVER, EXECUTOR, BROKER, NAME_SERVER)

_WATCH_SECONDS = 0.25
_QUICKLY_SECONDS = 0.005
PATIENCE_SECONDS = 400.0


class Checkpoint:
    """Spark's own notes on a query: an epoch is begun when its offsets are written, and done when it is committed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _last(self, kind: str) -> int:
        names = [path.name for path in (self._folder / kind).glob("[0-9]*")]
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def last_committed(self) -> int:
        """-1 before the first."""
        return self._last("commits")

    def in_flight(self) -> int | None:
        """The epoch that is begun and not done."""
        done, begun = self._last("commits"), self._last("offsets")
        return begun if begun > done else None

    def committed_offsets(self) -> dict[str, Any]:
        """Where the last epoch that is done has ended: topic, broker, queue."""
        done = self._last("commits")
        found: dict[str, Any] = json.loads((self._folder / "offsets" / str(done)).read_text().splitlines()[-1])
        return found

    def committed_count(self, topic: str) -> int:
        """How many messages the epochs that are done hold, for a query from the first message of a topic on."""
        if self._last("commits") < 0:
            return 0
        brokers = self.committed_offsets().get(topic, {})
        return sum(int(offset) for queues in brokers.values() for offset in queues.values())


class Trial:
    """`make_driver` gives the driver of the next life of the query. Used as a context manager: the driver is started
    on entry and gone on exit."""

    def __init__(
        self, world: World, standalone: Standalone, make_driver: Callable[[], Driver], checkpoint: Path
    ) -> None:
        self.world = world
        self.standalone = standalone
        self.checkpoint = Checkpoint(checkpoint)
        self.kills: Counter[str] = Counter()
        self.replayed: list[int] = []
        self.gave_up = 0
        self.traffic = Traffic(self)
        self._make_driver = make_driver
        self.driver = make_driver()

    def __enter__(self) -> Trial:
        self.driver.start()
        self.traffic.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.traffic.stop()
        self.driver.kill()
        with contextlib.suppress(AssertionError):
            self.standalone.wait_until_idle()

    def strike(self, victim: str, number: int = 0) -> None:
        """Kill it while an epoch is in flight, and start it again; `number` says which of several."""
        self.wait_for(lambda: self.checkpoint.in_flight() is not None, "an epoch is in flight")
        if victim == DRIVER:
            self.driver.kill()
            self._revive_driver()
        elif victim == EXECUTOR:
            self.standalone.kill_executor(number)
        elif victim == BROKER:
            self.world.brokers[number % len(self.world.brokers)].kill()
            self.world.heal()
        else:
            self.world.name_server.kill()
            self.world.heal()
        self.kills[victim] += 1

    def wait_until_committed(self, topic: str, count: int) -> None:
        self.wait_for(lambda: self.checkpoint.committed_count(topic) >= count, f"{count} messages of {topic} are read")

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """A query that gave up meanwhile, because of what was done to it, is started again, as a service would be."""

        def is_so() -> bool:
            if not self.driver.is_running():
                self.gave_up += 1
                assert self.gave_up <= 3, f"the query gives up again and again:\n{self.driver.tail()}"
                self._revive_driver()
            return condition()

        wait_for(is_so, what, timeout_s=PATIENCE_SECONDS, interval_s=_QUICKLY_SECONDS)

    def _revive_driver(self) -> None:
        if (epoch := self.checkpoint.in_flight()) is not None:
            self.replayed.append(epoch)
        driver = self._make_driver()
        driver.start()
        self.driver = driver

    def report(self) -> str:
        kills = ", ".join(f"{count} of {victim}" for victim, count in sorted(self.kills.items()))
        return (
            f"kills: {self.kills.total()} ({kills}); epochs replayed: {len(self.replayed)} {self.replayed}; "
            f"queries that gave up: {self.gave_up}; bytes from brokers to executors {self.traffic.executors_bytes}, "
            f"to the driver {self.traffic.driver_bytes}"
        )


class Traffic:
    """Looks again and again at who holds connections to the brokers, and what has come through them."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._of_executors: dict[tuple[int, int], int] = {}
        self._of_driver: dict[tuple[int, int], int] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @property
    def executors_bytes(self) -> int:
        return sum(self._of_executors.values())

    @property
    def driver_bytes(self) -> int:
        return sum(self._of_driver.values())

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stopped.wait(_WATCH_SECONDS):
            self.look()

    def look(self) -> None:
        executors = set(self._families(self._trial.standalone.executors()))
        drivers = set(self._families([self._trial.driver.pid]))
        for connection in connections_to(broker.port for broker in self._trial.world.brokers):
            key = (connection.pid, connection.local_port)
            if connection.pid in executors:
                self._of_executors[key] = connection.received_bytes
            elif connection.pid in drivers:
                self._of_driver[key] = connection.received_bytes

    @staticmethod
    def _families(pids: list[int]) -> Iterator[int]:
        for pid in pids:
            yield from family(pid)
