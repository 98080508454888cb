"""Fixtures of the tests against real Apache RocketMQ."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.java_cluster import BROKER, SERVERS_ARE_APACHES, Clients, Cluster, Servers, Tools
from tests.interop.python_world import APACHES, OURS, World, Worlds
from tests.peers import apache
from tests.peers.java_client import ClientShell
from tests.peers.netns import NetNamespace, NetNamespaceUnavailable


@pytest.fixture(scope="session")
def peers() -> None:
    """Everything here needs Apache's jars; without them the tests skip and say why."""
    for version in apache.VERSIONS:
        try:
            apache.resolve(version)
        except apache.PeersUnavailable as unavailable:
            pytest.skip(str(unavailable))


@pytest.fixture(scope="module")
def make_netns(peers: None) -> Iterator[Callable[[], NetNamespace]]:
    """Makes network namespaces that are gone after the module."""
    with contextlib.ExitStack() as namespaces:

        def make() -> NetNamespace:
            try:
                return namespaces.enter_context(NetNamespace())
            except NetNamespaceUnavailable as unavailable:
                pytest.skip(str(unavailable))

        yield make


@contextlib.contextmanager
def started_tools(make_folder: Callable[[str], Path], netns: NetNamespace | None) -> Iterator[Tools]:
    clients = ClientShell(apache.V5, work_dir=make_folder("clients"), netns=netns)
    mqadmin = apache.AdminShell(apache.V5, work_dir=make_folder("mqadmin"), netns=netns)
    with contextlib.ExitStack() as stack:
        for shell in (mqadmin, clients):
            stack.callback(shell.kill)
            shell.launch()
        for shell in (mqadmin, clients):
            shell.wait_until_ready()
        yield Tools(clients, mqadmin, netns)


@pytest.fixture(scope="package")
def tools(request: pytest.FixtureRequest, peers: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    """The Java client and `mqadmin`, warm, for all modules: starting them takes longer than most tests."""
    if SERVERS_ARE_APACHES:
        yield request.getfixturevalue("enclosed_tools")
    else:
        with started_tools(tmp_path_factory.mktemp, None) as started:
            yield started


@pytest.fixture(scope="package")
def enclosed_tools(peers: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    """The same in a network namespace, where Apache's servers can run: they do not keep to one address."""
    with contextlib.ExitStack() as stack:
        try:
            netns = stack.enter_context(NetNamespace())
        except NetNamespaceUnavailable as unavailable:
            pytest.skip(str(unavailable))
        yield stack.enter_context(started_tools(tmp_path_factory.mktemp, netns))


@pytest.fixture(scope="package")
def worlds(enclosed_tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    """Servers for the tests of our own client, started when a test first wants them."""
    with contextlib.ExitStack() as stack:
        yield Worlds(enclosed_tools, tmp_path_factory.mktemp, stack)


@pytest.fixture(params=[APACHES, OURS])
def world(request: pytest.FixtureRequest, worlds: Worlds) -> Iterator[World]:
    """Apache's servers, and ours: a test that takes this is played in both worlds."""
    found = worlds.get(request.param)
    yield found
    found.java.stop_all()


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest, tools: Tools, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """A name server and a broker for one module, whose BROKER_PROPERTIES configure it."""
    properties = getattr(request.module, "BROKER_PROPERTIES", {})
    folder = tmp_path_factory.mktemp("servers")
    with Servers(folder, tools.netns, properties, are_apaches=SERVERS_ARE_APACHES) as servers:
        cluster = Cluster(tools, servers.name_server, servers.broker)
        cluster.wait_for_route(BROKER)
        yield cluster


@pytest.fixture
def clients(cluster: Cluster) -> Iterator[Clients]:
    """Java clients of one test; shut down after it."""
    started = Clients(cluster)
    yield started
    started.stop_all()
