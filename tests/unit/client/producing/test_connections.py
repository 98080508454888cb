"""Sends that go at once, and those that cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from apogeemq.client.options import ProducerOptions
from apogeemq.client.producing.connections import Connections
from apogeemq.client.producing.outgoing import Outgoing, prepared
from apogeemq.client.send_answers import send_answer
from apogeemq.errors import TooManyRequests
from apogeemq.model.messages import Message
from apogeemq.model.topics import TopicConfig
from apogeemq.protocol.codes import RequestCode
from apogeemq.transport.flow import Limits
from apogeemq.transport.pool import ConnectionPool
from tests.unit.broker.handlers.members import serving
from tests.unit.event_loop import in_loop

SOMEWHERE = "10.0.0.1:10911"


def outgoing() -> Outgoing:
    made = prepared(Message("T", b"body"), "P", ProducerOptions(), "U", 5)
    made.header.queue_id = 0
    return made


@in_loop
async def test_a_send_goes_over_a_connection_that_is_there(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        broker.state.topics.put(TopicConfig(topic_name="T"), broker.state.now_ms())
        pool = ConnectionPool(limits=Limits(max_pending_per_channel=1))
        it, out = Connections(pool, {SOMEWHERE: broker.address}), outgoing()
        try:
            assert it.begin_send(SOMEWHERE, out.header, out.body, 5.0) is None  # nobody has connected yet
            await pool.request(broker.address, RequestCode.GET_BROKER_RUNTIME_INFO)
            begun = it.begin_send(SOMEWHERE, out.header, out.body, 5.0)
            assert begun is not None
            with pytest.raises(TooManyRequests):
                it.begin_send(SOMEWHERE, out.header, out.body, 5.0)
            stored = send_answer(await begun, SOMEWHERE)
            assert (stored.code, stored.queue_id, stored.queue_offset) == (0, 0, 0)
            pool.before_send.append(lambda code, fields, body: fields)  # what is signed goes the other way
            assert it.begin_send(SOMEWHERE, out.header, out.body, 5.0) is None
            assert broker.state.store.queue("T", 0).max_offset == 1
        finally:
            await pool.close()
