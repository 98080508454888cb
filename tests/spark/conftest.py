"""What the tests with a real Spark share: one session, servers of both kinds, a standalone cluster.

Starting any of these takes seconds, so each is started when a test first wants it and serves all that follow. A test
that kills servers gets them back whole for the next one; one that spoils them takes `make_world`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from apogeemq.spark.runtime.session import embedded_session
from tests.kept_clients import end_kept_clients
from tests.peers import apache
from tests.spark.pipeline_runs import Runs
from tests.spark.standalone import Standalone
from tests.spark.worlds import APACHES, OURS, World

MakeWorld = Callable[..., World]

# Other modules have a world of Apache's servers only in `make soak`: two cores have no time for all of them.
_ON_APACHE_TOO = frozenset(("test_batch_source.py", "test_batch_sink.py", "test_stream_source.py", "test_cold_scan.py"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests on Apache's servers come first: those burn a good part of a core even when nobody asks them anything."""
    here = Path(__file__).parent
    own = [item for item in items if item.path.parent == here]
    if not os.environ.get("APOGEE_SOAK"):
        long = [item for item in own if _is_long(item)]
        config.hook.pytest_deselected(items=long)
        own = [item for item in own if item not in long]
        items[:] = [item for item in items if item not in long]
    ordered = iter(sorted(own, key=lambda item: not _is_on_apache(item)))
    items[:] = [next(ordered) if item.path.parent == here else item for item in items]


def _is_long(item: pytest.Item) -> bool:
    return item.path.name not in _ON_APACHE_TOO and _is_on_apache_too(item)


def _is_on_apache_too(item: pytest.Item) -> bool:
    """One of several runs of a test."""
    return isinstance(item, pytest.Function) and hasattr(item, "callspec") and APACHES in item.callspec.params.values()


def _is_on_apache(item: pytest.Item) -> bool:
    return _is_on_apache_too(item) or (isinstance(item, pytest.Function) and "apache_world" in item.fixturenames)


@pytest.fixture(scope="package", autouse=True)
def quick_java() -> Iterator[None]:
    """For every Java that is started here, by whatever: most of them live for seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", " ".join(apache.QUICK_START))
        yield


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """`local[2]` with the connector registered. One for all: a process can have only one."""
    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    }
    started = embedded_session("tests", "local[2]", settings=settings, log_folder=folder)
    yield started
    started.stop()


@pytest.fixture(scope="package", autouse=True)
def own_clients() -> Iterator[None]:
    yield
    end_kept_clients()


@pytest.fixture(scope="package")
def worlds(own_clients: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], World]]:
    """By kind; each is started when it is asked for, and Apache's ended when ours are."""
    started: dict[str, World] = {}
    with contextlib.ExitStack() as stack, contextlib.ExitStack() as apaches:

        def get(kind: str) -> World:
            if kind == OURS and started.pop(APACHES, None) is not None:
                apaches.close()
            if kind not in started:
                _need_peers(kind)
                world = World(kind, tmp_path_factory.mktemp(kind))
                started[kind] = (stack if kind == OURS else apaches).enter_context(world)
            return started[kind]

        yield get


@pytest.fixture
def world(worlds: Callable[[str], World]) -> Iterator[World]:
    """Our servers."""
    yield from _healed(worlds(OURS))


@pytest.fixture
def apache_world(worlds: Callable[[str], World]) -> Iterator[World]:
    """Apache's servers, with SQL filters and timers on."""
    yield from _healed(worlds(APACHES))


@pytest.fixture(params=[OURS, APACHES])
def any_world(request: pytest.FixtureRequest, worlds: Callable[[str], World]) -> Iterator[World]:
    """Both, one after the other."""
    yield from _healed(worlds(request.param))


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[MakeWorld]:
    """`make_world(kind=OURS, properties={})`: servers of a test's own, with these settings of the brokers."""
    with contextlib.ExitStack() as stack:

        def make(kind: str = OURS, properties: Mapping[str, object] | None = None) -> World:
            _need_peers(kind)
            folder = tmp_path / f"world-{len(list(tmp_path.glob('world-*')))}"
            folder.mkdir()
            return stack.enter_context(World(kind, folder, properties))

        yield make


@pytest.fixture
def runs(spark: SparkSession, tmp_path: Path) -> Runs:
    return Runs(spark, tmp_path)


@pytest.fixture
def messages(spark: SparkSession, world: World) -> Callable[[str], list[Any]]:
    def read(topic: str) -> list[Any]:
        return spark.read.format("rocketmq").options(**world.options, subscribe=topic).load().collect()

    return read


@pytest.fixture(scope="package")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A master and two workers of one core each. A test that uses it waits until its executors have ended."""
    with Standalone(tmp_path_factory.mktemp("standalone")) as cluster:
        yield cluster


def _healed(found: World) -> Iterator[World]:
    found.heal()
    yield found
    found.heal()


def _need_peers(kind: str) -> None:
    if kind == APACHES:
        try:
            apache.resolve(apache.V5)
        except apache.PeersUnavailable as unavailable:
            pytest.skip(str(unavailable))
