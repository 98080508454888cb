"""Put a scenario's requests to a name server and keep what it answers.

Also a program, because a peer in a network namespace can only be reached from inside it:
``python -m tests.golden.replay SCENARIO PEER_VERSION PORT`` prints the frames as a golden file.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import time

from tests.golden import files, scenarios
from tests.golden.files import Frames
from tests.golden.steps import Ask, Close, Hear, Scenario
from tests.golden.wire import BINARY, JSON, Frame, binary_header, json_header, read_frame

TIMEOUT_S = 60.0
"""For one answer, or for an effect to show; only a broken peer or a stalled machine reaches it."""
_POLL_INTERVAL_S = 0.01
_FIRST_OPAQUE = 1_000
_ONE_WAY = 2


class Replay:
    """One run of one scenario. `version` tells which Apache's silences to expect."""

    def __init__(self, scenario: Scenario, version: str, port: int) -> None:
        self._scenario = scenario
        self._version = version
        self._port = port
        self._resources = contextlib.ExitStack()
        self._connections: dict[str, socket.socket] = {}
        self._listeners: list[socket.socket] = []
        self._heard: dict[int, socket.socket] = {}
        self._silent: set[int] = set()
        self._opaque = _FIRST_OPAQUE

    def run(self) -> Frames:
        """Every step's frame by its name, None for silence."""
        frames: Frames = {}
        with self._resources:
            self._listeners = [self._listen() for _ in range(self._scenario.listeners)]
            for step in self._scenario.steps:
                if isinstance(step, Close):
                    self._connections.pop(step.on).close()
                    continue
                assert step.name not in frames, f"two steps called {step.name!r}"
                frames[step.name] = self._ask(step) if isinstance(step, Ask) else self._hear(step)
        return frames

    def _listen(self) -> socket.socket:
        listener = self._resources.enter_context(socket.create_server(("127.0.0.1", 0)))
        listener.settimeout(TIMEOUT_S)
        return listener

    def _connection(self, name: str) -> socket.socket:
        if name not in self._connections:
            sock = socket.create_connection(("127.0.0.1", self._port), timeout=TIMEOUT_S)
            self._connections[name] = self._resources.enter_context(sock)
        return self._connections[name]

    def _ask(self, step: Ask) -> Frame | None:
        self._opaque += 1
        sock = self._connection(step.on)
        request = self._request(step).encode()
        if step.one_way or self._version in step.silent:
            self._silent.add(self._opaque)
            sock.sendall(request)
            return None
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            sock.sendall(request)
            answer = self._masked(self._answer(sock))
            if _is_awaited(step, answer):
                return answer
            assert time.monotonic() < deadline, f"{step.name}: still {answer} after {TIMEOUT_S:g} s"
            time.sleep(_POLL_INTERVAL_S)

    def _request(self, step: Ask) -> Frame:
        if step.raw_header is not None:
            return Frame(JSON, step.raw_header.replace("OPAQUE", str(self._opaque)).encode(), step.body)
        fields = {name: self._with_addresses(value) for name, value in step.fields.items()}
        make = binary_header if step.binary else json_header
        flag = _ONE_WAY if step.one_way else 0
        header = make(step.code, fields, opaque=self._opaque, version=step.version, flag=flag)
        return Frame(BINARY if step.binary else JSON, header, step.body)

    def _answer(self, sock: socket.socket) -> Frame:
        frame = read_frame(sock)
        opaque = frame.fields()["opaque"]
        assert opaque not in self._silent, f"an answer where silence was expected: {frame}"
        assert opaque == self._opaque, f"an answer to something else: {frame}"
        return frame

    def _hear(self, step: Hear) -> Frame:
        if step.at not in self._heard:
            sock, _ = self._listeners[step.at].accept()
            sock.settimeout(TIMEOUT_S)
            self._heard[step.at] = self._resources.enter_context(sock)
        frame = read_frame(self._heard[step.at])
        # The sender numbers its own requests through its whole life, and what else it sent is a matter of luck.
        opaque = str(frame.fields()["opaque"]).encode()
        return self._masked(frame._replace(header=frame.header.replace(b'"opaque":' + opaque, b'"opaque":0')))

    def _addresses(self) -> list[tuple[str, str]]:
        return [
            (f"{{broker{number}}}", f"127.0.0.1:{listener.getsockname()[1]}")
            for number, listener in enumerate(self._listeners)
        ]

    def _with_addresses(self, text: str) -> str:
        for token, address in self._addresses():
            text = text.replace(token, address)
        return text

    def _masked(self, frame: Frame) -> Frame:
        """The addresses of listening brokers, which are new each time, written as in the scenario again."""
        header, body = frame.header, frame.body
        for token, address in self._addresses():
            header = header.replace(address.encode(), token.encode())
            body = body.replace(address.encode(), token.encode())
        return Frame(frame.codec, header, body)


def _is_awaited(step: Ask, answer: Frame) -> bool:
    if step.until_code is not None and answer.fields()["code"] != step.until_code:
        return False
    return step.until_body is None or step.until_body in answer.body


def main() -> None:
    name, version, port = sys.argv[1:]
    frames = Replay(scenarios.BY_NAME[name], version, int(port)).run()
    sys.stdout.write(files.dump((), frames))


if __name__ == "__main__":
    main()
