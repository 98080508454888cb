"""A relay between two peers that keeps every frame: ``python -m tests.golden.recorder FILE LISTEN_PORT TARGET_PORT``.

Each frame becomes one line of FILE, as soon as it has passed: `>` or `<`, a space, and the frame in hex. A program, so
that it can run inside a network namespace beside the peers.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import BinaryIO

READY = "recording"


async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, mark: bytes, log: BinaryIO) -> None:
    """Pass frames on until either end closes."""
    try:
        while True:
            length = await reader.readexactly(4)
            frame = length + await reader.readexactly(int.from_bytes(length, "big"))
            log.write(mark + b" " + frame.hex().encode() + b"\n")
            log.flush()
            writer.write(frame)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def serve(path: Path, port: int, target: int) -> None:
    with path.open("wb") as log:

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, back = await asyncio.open_connection("127.0.0.1", target)
            await asyncio.gather(relay(reader, back, b">", log), relay(there, writer, b"<", log))

        server = await asyncio.start_server(connected, "127.0.0.1", port)
        print(READY, flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
