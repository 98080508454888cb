"""A few seconds of ApogeeMQ: a name server, two brokers, messages through them, and what happens when one leaves.

Servers and the commands shown run as processes of their own, as a person would start them.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from apogeemq.admin.nameserver import NameServerAdmin
from apogeemq.embedded.demo_messages import pull_messages, send_messages
from apogeemq.errors import ApogeeError, ConnectFailed, StorageFailed
from apogeemq.transport.pool import ConnectionPool

_NAME_SERVER_BOOT: Final = re.compile(rb"boot success\..* address (\S+)\s*$")
_BROKER_BOOT: Final = re.compile(rb"The broker\[\S+, (\S+)\] boot success")
_APOGEE: Final = (sys.executable, "-m", "apogeemq.cli.main")
_START_SECONDS: Final = 20.0
_STOP_SECONDS: Final = 20.0
_WATCH_SECONDS: Final = 20.0

_CLUSTER_FLAGS: Final = ("--bind", "127.0.0.1", "--port", "0", "--log-dir", "", "--log-level", "warning")
_TOPIC: Final = "orders"
_QUEUES: Final = 4
_MESSAGES: Final = 1_000
_BROKER_COUNT: Final = 2

_NEXT = """\
What to do next:
  apogee namesrv                                a name server on port 9876 that stays
  apogee broker -n localhost:9876               a broker on port 10911; Java and Go clients work with it
  apogee broker --help                          its flags
  mqadmin clusterList -n localhost:9876         Apache's tools see both as their own
  apogee namesrv diff host-a:9876 host-b:9876   whether two name servers say the same"""


async def demonstrate() -> None:
    with tempfile.TemporaryDirectory(prefix="apogeemq-demo-") as folder:
        async with AsyncExitStack() as parts:
            _, name_server = await parts.enter_async_context(_name_server(folder))
            _, first = await parts.enter_async_context(_broker(folder, "broker-a", name_server))
            second, _ = await parts.enter_async_context(_broker(folder, "broker-b", name_server))
            pool = await parts.enter_async_context(_pool())
            await _send_and_pull(pool, first)
            await _spread(pool, name_server)
            await _show("namesrv", "routes", name_server, _TOPIC)
            admin = NameServerAdmin(pool, name_server)
            before = (await admin.read_journal()).last_sequence
            await _watch_one_leave(admin, second)
            _say("Every change has a line in the journal; the last ones are:")
            await _show("namesrv", "journal", name_server, "--from", str(before + 1))
    _say(_NEXT)


async def _send_and_pull(pool: ConnectionPool, broker: str) -> None:
    bodies = [b"order %d" % number for number in range(_MESSAGES)]
    started = time.monotonic()
    await send_messages(pool, broker, _TOPIC, bodies, _QUEUES)
    _say(f"{_MESSAGES} messages sent to {_TOPIC}, a topic that was not there, in {time.monotonic() - started:.2f} s.")
    started = time.monotonic()
    pulled = await pull_messages(pool, broker, _TOPIC, _QUEUES)
    if sorted(pulled) != sorted(bodies):
        raise StorageFailed(f"{len(pulled)} messages came back, and they are not those that were sent")
    _say(f"{len(pulled)} messages pulled, each of them once, in {time.monotonic() - started:.2f} s.")


async def _spread(pool: ConnectionPool, name_server: str) -> None:
    """Wait until the topic, made by a message at one broker, is served by both."""
    admin = NameServerAdmin(pool, name_server)
    digest = ""
    async with asyncio.timeout(_WATCH_SECONDS):
        while True:
            changed = await admin.watch_routes({_TOPIC: digest}, _WATCH_SECONDS)
            route = changed[_TOPIC].route if _TOPIC in changed else None
            if route is not None and len(route.queues) == _BROKER_COUNT:
                return
            digest = changed[_TOPIC].digest if _TOPIC in changed else digest


async def _watch_one_leave(admin: NameServerAdmin, broker: asyncio.subprocess.Process) -> None:
    """Hold a route watch, stop a broker, and see the watch answered."""
    known = await admin.watch_routes({_TOPIC: ""}, timeout_seconds=0)
    digests = {topic: change.digest for topic, change in known.items()}
    watch = asyncio.create_task(admin.watch_routes(digests, _WATCH_SECONDS))
    _say(f"A client watches the route of {_TOPIC}. Now broker-b is killed …")
    await admin.cluster_info()  # answered after the watch was taken: both travel on one connection
    left_at = time.monotonic()
    broker.kill()
    changed = await watch
    elapsed_ms = (time.monotonic() - left_at) * 1000
    route = changed[_TOPIC].route if _TOPIC in changed else None
    remaining = ", ".join(sorted(route.queues)) if route is not None else "nobody"
    _say(f"… and {elapsed_ms:.0f} ms later the client knows: {_TOPIC} is served by {remaining}.")


@asynccontextmanager
async def _pool() -> AsyncIterator[ConnectionPool]:
    pool = ConnectionPool()
    try:
        yield pool
    finally:
        await pool.close()


@asynccontextmanager
async def _name_server(folder: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    async with _server(_NAME_SERVER_BOOT, "namesrv", *_CLUSTER_FLAGS, "--data", f"{folder}/namesrv") as started:
        yield started


@asynccontextmanager
async def _broker(folder: str, name: str, name_server: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    config = Path(folder, f"{name}.conf")
    config.write_text("autoCreateTopicOnAllBrokers=true\n")
    flags = (*_CLUSTER_FLAGS, "--data", f"{folder}/{name}", "--name", name, "-n", name_server, "-c", str(config))
    async with _server(_BROKER_BOOT, "broker", *flags) as started:
        yield started


@asynccontextmanager
async def _server(boot_line: re.Pattern[bytes], *args: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A server and the address it says it has, for as long as the context lasts."""
    _say_command(*args)
    process = await asyncio.create_subprocess_exec(*_APOGEE, *args, stdout=asyncio.subprocess.PIPE)
    try:
        yield process, await _address_of(process, boot_line)
    finally:
        await _stop(process)


async def _address_of(process: asyncio.subprocess.Process, boot_line: re.Pattern[bytes]) -> str:
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_START_SECONDS):
            async for line in process.stdout:
                print(line.decode().rstrip(), flush=True)
                if match := boot_line.search(line):
                    return match[1].decode()
    except TimeoutError:
        raise ConnectFailed(f"the server did not start in {_START_SECONDS:g} s") from None
    raise ConnectFailed("the server ended before it was ready")


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


async def _show(*args: str) -> None:
    """Run one of our commands, its output on the terminal."""
    _say_command(*args)
    command = await asyncio.create_subprocess_exec(*_APOGEE, *args)
    try:
        await command.wait()
    finally:
        await _stop(command)


def _say(text: str) -> None:
    print(f"\n{text}", flush=True)


def _say_command(*args: str) -> None:
    print(f"\n$ apogee {shlex.join(args)}", flush=True)


async def _demonstrate_until_stopped() -> None:
    """SIGTERM ends the demonstration as an interrupt does: nothing is left running."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await demonstrate()


def main() -> int:
    try:
        asyncio.run(_demonstrate_until_stopped())
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 130
    except ApogeeError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
