"""The connection that a process of a job has to the cluster."""

from __future__ import annotations

import os

import pytest

from apogeemq.errors import (
    ApogeeError,
    ConnectFailed,
    NoNameServer,
    NoRoute,
    ProtocolError,
    RemoteRefused,
    RouteCause,
)
from apogeemq.spark.cluster import Cluster, cluster_of, may_come_back, may_pass
from apogeemq.spark.connection import Connection
from tests.peers.process import free_port


@pytest.fixture(scope="module")
def connection() -> Connection:
    """To nobody."""
    return Connection(name_server=f"127.0.0.1:{free_port()}", retries=2, retry_delay_ms=1)


def test_a_process_has_one_for_a_group_and_its_options(connection: Connection) -> None:
    assert cluster_of(connection, "G") is cluster_of(connection, "G")
    others = {
        cluster_of(connection, "G"),
        cluster_of(connection, "H"),
        cluster_of(Connection(name_server=connection.name_server, retries=3), "G"),
    }
    assert len(others) == 3


def test_a_forked_child_has_its_own(connection: Connection) -> None:
    """As Spark's workers are: forked from a process that may have connections."""
    ours = cluster_of(connection, "G")
    child = os.fork()
    if not child:
        try:
            own = cluster_of(connection, "G")
            answered = 0
            try:
                own.topics()
            except NoNameServer:
                answered = 7
            os._exit(answered if own is not ours else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_it_tries_as_often_as_it_is_told(connection: Connection) -> None:
    cluster, attempts = cluster_of(connection, "G"), 0

    async def ask() -> int:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise ConnectFailed("not yet")
        return attempts

    assert cluster.run(lambda: cluster.retried(ask)) == 3
    attempts = -100
    with pytest.raises(ConnectFailed):
        cluster.run(lambda: cluster.retried(ask))
    assert attempts == -97


def test_it_does_not_try_again_what_cannot_pass(connection: Connection) -> None:
    cluster, attempts = cluster_of(connection, "G"), 0

    async def ask() -> None:
        nonlocal attempts
        attempts += 1
        raise ProtocolError("nonsense")

    with pytest.raises(ProtocolError):
        cluster.run(lambda: cluster.retried(ask))
    assert attempts == 1


@pytest.mark.parametrize(
    ("error", "passes", "comes_back"),
    [
        (ConnectFailed("x"), True, True),
        (NoRoute("x", RouteCause.NO_BROKER), True, True),
        (NoRoute("x", RouteCause.BROKER_UNKNOWN), True, True),
        (NoRoute("x", RouteCause.NOT_YET), False, True),
        (NoRoute("x", RouteCause.NO_AUTO_CREATION), False, True),
        (RemoteRefused(2, "busy"), True, True),
        (RemoteRefused(16, "no permission"), False, False),
        (ProtocolError("x"), False, False),
    ],
)
def test_what_may_pass(error: ApogeeError, passes: bool, comes_back: bool) -> None:
    assert may_pass(error) is passes
    assert may_come_back(error) is comes_back


def test_nobody_there_is_said_once_it_is_sure(connection: Connection) -> None:
    with pytest.raises(NoNameServer, match=connection.name_server):
        cluster_of(connection, "G").topics()
    answers = cluster_of(connection, "G").try_queues(["A", "B"])
    assert answers.found == {}
    assert {type(error) for error in answers.failed.values()} == {NoRoute}


def test_a_wrong_group_is_refused(connection: Connection) -> None:
    with pytest.raises(ApogeeError, match="illegal characters"):
        Cluster(connection, "a b")
