"""Every key our broker shares with Apache's has the same default."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from apogeemq.broker.settings import resolve_settings
from apogeemq.protocol.codes import RequestCode
from apogeemq.transport.pool import ConnectionPool
from tests.peers import apache
from tests.peers.process import free_port

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

OURS = {
    *("advertise", "autoCreateTopicOnAllBrokers", "fastPortEnable", "httpBind", "httpPort"),
    *("maxConnections", "maxFrameSize", "maxGroups", "maxHeldPulls", "maxHeldRequests", "maxMappedQueueFiles"),
    *("maxQueuedAnswerBytes", "maxTopics", "partialFrameSeconds"),
}
NOT_SHOWN_BY_APACHE = {
    *("authenticationEnabled", "authorizationEnabled", "brokerConfigPath", "haMasterAddress"),
    *("rmqAddressServerDomain", "rmqAddressServerSubGroup"),
}
OF_THE_MACHINE = {"sendMessageThreadPoolNums", "putMessageFutureThreadPoolNums", "endTransactionThreadPoolNums"} | {
    *("pullMessageThreadPoolNums", "litePullMessageThreadPoolNums", "processReplyMessageThreadPoolNums"),
    *("queryMessageThreadPoolNums", "heartbeatThreadPoolNums"),
}
"""Apache's depend on the number of processors; ours are without effect."""


def parsed(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


async def configuration(address: str) -> str:
    pool = ConnectionPool()
    try:
        answer = await pool.request(address, RequestCode.GET_BROKER_CONFIG, timeout_seconds=20)
        return answer.body.decode()
    finally:
        await pool.close()


@pytest.mark.usefixtures("peers")
def test_shared_keys_have_apaches_defaults(tmp_path: Path) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    with apache.Broker(apache.V5, nowhere, work_dir=tmp_path) as broker:
        theirs = parsed(asyncio.run(configuration(broker.address)))
    given = parsed((tmp_path / "broker.conf").read_text())
    settings, _ = resolve_settings(given, {}, home=tmp_path, host_name=os.uname().nodename, local_address="127.0.0.1")
    shown = parsed(settings.shown())
    assert shown.keys() - theirs.keys() <= OURS | NOT_SHOWN_BY_APACHE
    shared = (shown.keys() & theirs.keys()) - OF_THE_MACHINE - {"rocketmqHome"}
    assert len(shared) > 150
    assert {key: shown[key] for key in shared} == {key: theirs[key] for key in shared}
