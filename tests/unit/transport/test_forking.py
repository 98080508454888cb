"""A forked child does not hold its parent's connections open."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.transport.pool import ConnectionPool
from tests.unit.event_loop import in_loop
from tests.unit.name_servers import name_server


@in_loop
async def test_a_child_has_nothing_in_the_place_of_each_socket(tmp_path: Path) -> None:
    async with name_server(tmp_path) as (_, address):
        pool = ConnectionPool()
        assert pool.descriptors() == []
        await pool.request(address, RequestCode.GET_BROKER_CLUSTER_INFO)
        (descriptor,) = pool.descriptors()
        child = os.fork()
        if child == 0:
            is_released = os.readlink(f"/proc/self/fd/{descriptor}") == os.devnull
            os._exit(0 if is_released else 1)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        answer = await pool.request(address, RequestCode.GET_BROKER_CLUSTER_INFO)
        assert answer.code == ResponseCode.SUCCESS
        assert pool.descriptors() == [descriptor]
        await pool.close()
        assert pool.descriptors() == []
