"""A connection on which one thread asks and waits, without a loop: nobody else has to be woken for an answer."""

from __future__ import annotations

import socket
import time
from itertools import count
from struct import pack
from typing import Final

from apogeemq.errors import ConnectFailed, ConnectionLost, ProtocolError, RequestTimedOut
from apogeemq.protocol.codec import decode_frame
from apogeemq.protocol.command import FLAG_RESPONSE, Command
from apogeemq.protocol.framing import FrameReader
from apogeemq.transport.addresses import parse_address
from apogeemq.transport.direct.signals import heed_signals
from apogeemq.transport.flow import hurry

# A signal that comes a moment before the thread falls asleep does not wake it, so it looks up now and then.
_LOOK_UP_SECONDS: Final = 0.1
_LOOK_UP_OPTION: Final = pack("@ll", 0, int(_LOOK_UP_SECONDS * 1_000_000))
_READ_SIZE: Final = 64 * 1024
_MAX_OPAQUE: Final = 2**31 - 1
# One that was used so recently is thought to be there still; what happens if not is the same as a moment later.
_FRESH_SECONDS: Final = 1.0


class Exchange:
    """Of one thread at a time. After any error, or an exception of a signal's, it must be closed: an answer might come
    that nobody waits for any more."""

    __slots__ = ("_opaques", "_reader", "_socket", "_used_at", "address")

    def __init__(self, address: str, max_frame_size: int, connect_seconds: float, unacknowledged_ms: int = 0) -> None:
        """Connects. Raises ConnectFailed."""
        self.address = address
        self._reader = FrameReader(max_frame_size)
        self._opaques = count(1)
        try:
            self._socket = socket.create_connection(parse_address(address), connect_seconds)
            try:
                self._set_options(unacknowledged_ms)
            except BaseException:
                self._socket.close()
                raise
        except TimeoutError:
            raise ConnectFailed(f"cannot connect to {address}: no answer in {connect_seconds:g} s") from None
        except OSError as error:
            raise ConnectFailed(f"cannot connect to {address}: {error.strerror or error}") from None
        self._used_at = time.monotonic()

    def _set_options(self, unacknowledged_ms: int) -> None:
        # Limits of the kernel's: with Python's own, every call would be two.
        self._socket.settimeout(None)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self._socket.setsockopt(socket.SOL_SOCKET, option, _LOOK_UP_OPTION)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if unacknowledged_ms:
            hurry(self._socket, unacknowledged_ms)

    def next_opaque(self) -> int:
        """The number of the request that `ask` sends next."""
        return next(self._opaques) & _MAX_OPAQUE

    def ask(self, opaque: int, frame: bytes, started: float, seconds: float) -> Command:
        """The answer, whatever its code. The time counts from `started`, by the monotonic clock. Raises ConnectionLost,
        RequestTimedOut."""
        deadline = started + seconds
        try:
            try:
                sent = self._socket.send(frame)
            except BlockingIOError:  # the kernel has no room at all
                sent = 0
            if sent < len(frame):
                self._send_rest(frame, sent, deadline)
            while True:
                try:
                    data = self._socket.recv(_READ_SIZE)
                except BlockingIOError:
                    if time.monotonic() >= deadline:
                        raise
                    heed_signals()
                    continue
                if not data:
                    raise ConnectionLost(f"connection to {self.address} ended before the answer")
                answer = self._answer(opaque, data)
                if answer is not None:
                    self._used_at = started
                    return answer
                if time.monotonic() >= deadline:
                    raise BlockingIOError
        except BlockingIOError:
            raise RequestTimedOut(f"{self.address} did not answer in {round(seconds, 2):g} s") from None
        except OSError as error:
            raise ConnectionLost(f"connection to {self.address} ended before the answer: {error.strerror}") from None
        except ProtocolError as error:
            raise ConnectionLost(f"what {self.address} sent is no answer: {error}") from None

    def _send_rest(self, frame: bytes, sent: int, deadline: float) -> None:
        rest = memoryview(frame)[sent:]
        while rest:
            if time.monotonic() >= deadline:  # also while a peer takes a little now and then
                raise BlockingIOError
            try:
                sent = self._socket.send(rest)
            except BlockingIOError:
                heed_signals()
                continue
            rest = rest[sent:]  # a statement of its own: `rest = rest[send(rest):]` mypyc compiles wrongly

    def _answer(self, opaque: int, data: bytes) -> Command | None:
        """Other frames are for nobody: whoever wants to ask us something has another connection."""
        reader = self._reader
        for frame in reader.feed(data):
            command = decode_frame(frame)
            if command.opaque == opaque and command.flag & FLAG_RESPONSE:
                return command
        if reader.error is not None:
            raise reader.error
        return None

    def is_usable(self, now: float) -> bool:
        """Whether the peer has not left, or begun to say something nobody asked for, while nobody looked."""
        if self._reader.error is not None:  # what came after the last answer was not the protocol
            return False
        if now - self._used_at < _FRESH_SECONDS:
            return True
        try:
            self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def descriptor(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()
