"""Fixtures of the tests against real Apache RocketMQ."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from tests.peers import apache
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
