"""A few seconds of ApogeeMQ: a name server, a small made-up cluster, its routes, and what happens when one leaves.

The name server and the commands shown run as processes of their own, as a person would start them; the brokers are
only their voices on the wire.
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
from typing import Final

from apogeemq.admin.nameserver import NameServerAdmin
from apogeemq.errors import ApogeeError, ConnectFailed
from apogeemq.model.routes import DataVersion
from apogeemq.model.topics import PERM_READ, PERM_READ_WRITE
from apogeemq.protocol.bodies.registration import Registration, TopicConfig
from apogeemq.transport.broker_registration import BrokerIdentity, BrokerRegistration
from apogeemq.transport.pool import ConnectionPool

_BOOT_LINE: Final = re.compile(rb"boot success\..* address (\S+)\s*$")
_APOGEE: Final = (sys.executable, "-m", "apogeemq.cli.main")
_START_SECONDS: Final = 20.0
_STOP_SECONDS: Final = 10.0
_WATCH_SECONDS: Final = 10.0
_WATCHED: Final = "orders"

_CLUSTER: Final = "demo"
_BROKERS: Final = (
    BrokerIdentity(_CLUSTER, "broker-a", 0, "10.1.0.1:10911", "10.1.0.1:10912"),
    BrokerIdentity(_CLUSTER, "broker-a", 1, "10.1.0.2:10911", "10.1.0.2:10912"),
    BrokerIdentity(_CLUSTER, "broker-b", 0, "10.1.0.3:10911", "10.1.0.3:10912"),
)
_TOPICS: Final = {
    "broker-a": (
        TopicConfig(_WATCHED, readQueueNums=8, writeQueueNums=8),
        TopicConfig("payments", readQueueNums=4, writeQueueNums=4),
        TopicConfig("audit-log", readQueueNums=1, writeQueueNums=1),
    ),
    "broker-b": (
        TopicConfig(_WATCHED, readQueueNums=8, writeQueueNums=8),
        TopicConfig("payments", readQueueNums=4, writeQueueNums=4, perm=PERM_READ),
        TopicConfig("clicks", readQueueNums=16, writeQueueNums=16, perm=PERM_READ_WRITE),
    ),
}

_NEXT = """\
What to do next:
  apogee namesrv                                a name server on port 9876 that stays
  apogee namesrv --help                         its flags, and commands to look at running ones
  mqbroker -n localhost:9876                    Apache's broker registers with it as with its own
  mqadmin clusterList -n localhost:9876         and so do Apache's tools
  apogee namesrv diff host-a:9876 host-b:9876   whether two name servers say the same"""


async def demonstrate() -> None:
    with tempfile.TemporaryDirectory(prefix="apogeemq-demo-") as folder:
        async with _name_server(folder) as address, AsyncExitStack() as pools:
            voices = [await pools.enter_async_context(_pool()) for _ in _BROKERS]
            for pool, broker in zip(voices, _BROKERS, strict=True):
                await _register(pool, address, broker)
            _say(f"{len(_BROKERS)} brokers of a made-up cluster registered. Who serves what:")
            await _show("namesrv", "routes", address)
            async with _pool() as watcher:
                admin = NameServerAdmin(watcher, address)
                before = (await admin.read_journal()).last_sequence
                await _watch_one_leave(admin, voices[-1])
            _say("Every change has a line in the journal; the last ones are:")
            await _show("namesrv", "journal", address, "--from", str(before + 1))
    _say(_NEXT)


async def _watch_one_leave(admin: NameServerAdmin, voice: ConnectionPool) -> None:
    """Hold a route watch, close a broker's connection, and see the watch answered."""
    known = await admin.watch_routes({_WATCHED: ""}, timeout_seconds=0)
    digests = {topic: change.digest for topic, change in known.items()}
    watch = asyncio.create_task(admin.watch_routes(digests, _WATCH_SECONDS))
    _say(f"A client watches the route of {_WATCHED}. Now {_BROKERS[-1].name} loses its connection …")
    await admin.cluster_info()  # answered after the watch was taken: both travel on one connection
    left_at = time.monotonic()
    await voice.close()
    changed = await watch
    elapsed_ms = (time.monotonic() - left_at) * 1000
    route = changed[_WATCHED].route if _WATCHED in changed else None
    remaining = ", ".join(sorted(route.queues)) if route is not None else "nobody"
    _say(f"… and {elapsed_ms:.0f} ms later the client knows: {_WATCHED} is served by {remaining}.")


async def _register(pool: ConnectionPool, address: str, broker: BrokerIdentity) -> None:
    topics = {topic.topicName or "": topic for topic in _TOPICS[broker.name]}
    version = DataVersion(counter=1, timestamp=int(time.time() * 1000))
    await BrokerRegistration(pool, address, broker).register(Registration(version, topics))


@asynccontextmanager
async def _pool() -> AsyncIterator[ConnectionPool]:
    pool = ConnectionPool()
    try:
        yield pool
    finally:
        await pool.close()


@asynccontextmanager
async def _name_server(folder: str) -> AsyncIterator[str]:
    """The address of a name server that runs for as long as the context does."""
    flags = ("--bind", "127.0.0.1", "--port", "0", "--data", folder, "--log-level", "warning")
    _say_command("namesrv", *flags)
    process = await asyncio.create_subprocess_exec(*_APOGEE, "namesrv", *flags, stdout=asyncio.subprocess.PIPE)
    try:
        yield await _address_of(process)
    finally:
        await _stop(process)


async def _address_of(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_START_SECONDS):
            async for line in process.stdout:
                print(line.decode().rstrip(), flush=True)
                if match := _BOOT_LINE.search(line):
                    return match[1].decode()
    except TimeoutError:
        raise ConnectFailed(f"the name server did not start in {_START_SECONDS:g} s") from None
    raise ConnectFailed("the name server ended before it was ready")


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
