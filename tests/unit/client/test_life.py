"""Whenever a program is stopped, its clients leave nothing behind: no task, no connection, no group in use."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from apogeemq.client import Consumer, Message, Producer, ProducerOptions, SendResult
from apogeemq.client.instance import _instances
from apogeemq.errors import ApogeeError
from tests.unit.broker.registering import free_address
from tests.unit.client.cluster import FROM_FIRST, Cluster, client_tasks, cluster, eventually
from tests.unit.event_loop import in_loop

Program = Callable[[str], Awaitable[None]]


async def producing(address: str) -> None:
    options = ProducerOptions(linger_seconds=0.001)
    async with Producer(address, group="P", options=options) as producer:
        for _ in range(3):
            await producer.send_soon(Message("T", b"x"))
        await producer.send("T", b"x")
        await producer.send_soon(Message("T", b"x"))


async def consuming(address: str) -> None:
    async with Consumer(address, group="G", topic="T", options=FROM_FIRST) as consumer:
        await (await anext(consumer)).ack()


async def until_quiet(where: Cluster, tasks: set[asyncio.Task[object]], connections: int) -> None:
    """Nothing of a client runs, and the servers have no connection of one."""
    assert not _instances
    servers = (where.name_server.server, where.brokers["broker-a"].server)
    await eventually(lambda: not client_tasks())
    await eventually(lambda: sum(len(server.channels) for server in servers) <= connections)
    await eventually(lambda: asyncio.all_tasks() <= tasks)


@pytest.mark.parametrize("program", [producing, consuming])
@pytest.mark.parametrize("times", [1, 2])
def test_cancelled_at_any_moment(tmp_path: Path, program: Program, times: int) -> None:
    @in_loop
    async def run() -> None:
        async with cluster(tmp_path) as it:
            await it.make_topic("T", 1)
            await producing(it.address)
            servers = (it.name_server.server, it.brokers["broker-a"].server)
            await eventually(lambda: not client_tasks())
            tasks, connections = asyncio.all_tasks(), sum(len(server.channels) for server in servers)
            for steps in (*range(30), *range(30, 120, 6)):
                running = asyncio.ensure_future(program(it.address))
                for _ in range(steps):
                    await asyncio.sleep(0)
                for _ in range(times):
                    running.cancel()
                    await asyncio.sleep(0)
                await asyncio.wait((running,))
                await until_quiet(it, tasks, connections)

    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        run()
        gc.collect()


@pytest.mark.parametrize("is_route_known", [True, False])
def test_sends_that_others_wait_for_end_with_the_producer(tmp_path: Path, is_route_known: bool) -> None:
    """With a result or with an error that says so; they are not taken for cancelled."""

    @in_loop
    async def run() -> None:
        async with cluster(tmp_path) as it:
            await it.make_topic("T", 1)
            for steps in range(0, 40, 4):
                stored = it.state.store.queue("T", 0).max_offset
                producer = Producer(it.address, group="P")
                await producer.start()
                if is_route_known:
                    await producer.queues("T")
                sending = [asyncio.ensure_future(producer.send("T", b"x")) for _ in range(10)]
                for _ in range(steps):
                    await asyncio.sleep(0)
                await producer.stop()
                ends = await asyncio.gather(*sending, return_exceptions=True)
                assert all(isinstance(end, SendResult | ApogeeError) for end in ends), ends
                results = [end for end in ends if isinstance(end, SendResult)]
                assert it.state.store.queue("T", 0).max_offset - stored >= len(results)

    run()


@in_loop
async def test_cancelled_while_no_name_server_answers() -> None:
    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(deaf, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    before = asyncio.all_tasks()
    for program in (producing, consuming):
        running = asyncio.ensure_future(program(f"{host}:{port}"))
        await eventually(lambda: len(asyncio.all_tasks() - before) > 2)
        running.cancel()
        await asyncio.wait((running,))
        assert running.cancelled() and not _instances
        await eventually(lambda: asyncio.all_tasks() <= before)
    server.close()
    await server.wait_closed()


def test_a_loop_that_was_torn_off_is_forgotten() -> None:
    address = free_address()

    async def leave_it() -> None:
        await Producer(address, group="P").start()

    async def take_it() -> None:
        async with Producer(address, group="P"):
            assert len(_instances) == 1

    asyncio.run(leave_it())
    asyncio.run(take_it())
    assert not _instances


@in_loop
async def test_the_same_servers_in_another_order_are_the_same_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = free_address(), free_address()
    monkeypatch.setenv("NAMESRV_ADDR", f"{one};{other}")
    async with (
        Producer(f"{one};{other}", group="P") as first,
        Producer(f" {other} , {one}", group="Q") as second,
        Producer(group="R") as third,
    ):
        assert first._instance is second._instance is third._instance


# -- Ctrl-C --------------------------------------------------------------------------------------------------

PROGRAM = """
import asyncio, sys
from apogeemq.client import Consumer, Message, Producer

async def main():
    async with Producer(sys.argv[1], group="P") as producer:
        async with Consumer(sys.argv[1], group="G", topic="T") as consumer:
            print("running", flush=True)
            while True:
                await producer.send_soon(Message("T", b"x"))
                message = await anext(consumer)
                await message.ack()

asyncio.run(main())
"""


@in_loop
async def test_control_c(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        for times in (1, 2):
            flags = ("-X", "dev", "-W", "error::ResourceWarning")
            program = await asyncio.create_subprocess_exec(
                *(sys.executable, *flags, "-c", PROGRAM, it.address),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            assert program.stdout is not None
            assert await program.stdout.readline() == b"running\n"
            await eventually(lambda: it.state.store.queue("T", 0).max_offset)
            for _ in range(times):
                program.send_signal(signal.SIGINT)
            _, told = await program.communicate()
            last = told.decode().strip().splitlines()[-1]
            assert last == "KeyboardInterrupt", told.decode()
            for sign in ("never awaited", "was destroyed", "ResourceWarning", "Exception ignored"):
                assert sign not in told.decode()
            if times == 1:  # it has said goodbye
                assert not it.state.clients.producers.get("P")
                assert not it.state.clients.consumers.get("G")
