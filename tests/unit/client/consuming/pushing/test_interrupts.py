"""Programs that end by Ctrl-C: a process of their own, and a real signal."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from apogeemq.client import Consumer
from tests.unit.client.cluster import FROM_FIRST, cluster, eventually
from tests.unit.client.consuming.programs import fill
from tests.unit.event_loop import in_loop

START = """
import asyncio, sys
from apogeemq.client import Consumer, ConsumerOptions

options = ConsumerOptions(start_from="first")
consumer = Consumer(sys.argv[1], group="G", topic="T", options=options)
"""

LOOP = f"""{START}
async def main():
    async with consumer:
        async for message in consumer:
            print("has", message.body.decode(), flush=True)
            if message.body == b"2":
                await asyncio.Event().wait()
            await message.ack()

asyncio.run(main())
"""

HANDLER = f"""{START}
@consumer.on_message
async def handle(message):
    print("has", message.body.decode(), flush=True)
    if message.body == b"2":
        await asyncio.sleep(0.3)
        print("finished", message.body.decode(), flush=True)

async def main():
    async with consumer:
        await consumer.run(concurrency=1)

asyncio.run(main())
"""


@pytest.mark.parametrize(("program", "committed"), [(LOOP, 2), (HANDLER, 3)], ids=["loop", "handler"])
def test_a_program_that_is_interrupted(tmp_path: Path, program: str, committed: int) -> None:
    """A loop is at work with a message that comes again; a handler may finish with it."""

    @in_loop
    async def run() -> None:
        async with cluster(tmp_path) as it:
            await fill(it, "T", 5, queues=1)
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", program, it.address),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            assert process.stdout is not None and process.stderr is not None
            while (line := await process.stdout.readline()) != b"has 2\n":
                assert line, (await process.stderr.read()).decode()
            process.send_signal(signal.SIGINT)
            output, errors = await process.communicate()
            assert process.returncode == -signal.SIGINT
            assert errors.decode().rstrip().endswith("KeyboardInterrupt")
            assert b"has 3" not in output
            assert it.committed("G", "T") == {0: committed}
            await eventually(lambda: (left := it.state.clients.consumer_group("G")) is None or not left.client_ids)
            async with Consumer(it.address, group="G", topic="T", options=FROM_FIRST) as another:
                assert (await anext(another)).queue_offset == committed

    run()
