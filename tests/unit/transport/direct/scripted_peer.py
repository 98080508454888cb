"""The other end of a connection, in a thread of its own, that does what a function says."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from apogeemq.protocol.codec import decode_frame
from apogeemq.protocol.command import Command
from apogeemq.protocol.framing import FrameReader

Script = Callable[[socket.socket], None]


@contextmanager
def peer(script: Script) -> Iterator[str]:
    """The address of one that takes a single connection; it is through with it when the block has ended."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):  # nobody came, or left in the middle
                connection, _ = listening.accept()
                with connection:
                    script(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def request(connection: socket.socket) -> Command:
    """The next one, however large."""
    reader = FrameReader()
    while True:
        data = connection.recv(1 << 20)
        assert data, "the connection was closed"
        for frame in reader.feed(data):
            return decode_frame(frame)


def until_closed(connection: socket.socket) -> None:
    """By the other end."""
    with suppress(ConnectionResetError):
        while connection.recv(1 << 20):
            pass


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
