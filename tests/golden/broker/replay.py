"""Put a scenario's requests to a broker and keep what it answers, masked.

Also a program, because a peer in a network namespace can only be reached from inside it:
``python -m tests.golden.broker.replay SCENARIO PORT NAMESRV_PORT WORK_DIR`` prints the answers as a golden file.
"""

from __future__ import annotations

import contextlib
import re
import socket
import sys
import time

from tests.golden.broker import files, scenarios
from tests.golden.broker.files import CLOSED, SILENCE, Answers, Kept
from tests.golden.broker.masks import Masks
from tests.golden.broker.steps import Answer, Ask, Close, Push, Scenario
from tests.golden.wire import BINARY, JSON, Frame, binary_header, json_header, read_frame

TIMEOUT_S = 30.0
"""For one answer, or for an effect to show; only a broken peer or a stalled machine reaches it."""
_POLL_INTERVAL_S = 0.02
_FIRST_OPAQUE = 1_000
_RESPONSE, _ONE_WAY = 1, 2
_TOKEN = re.compile(r"\{(offset|id|key):([^}]+)\}|\{(now|port)\}")


class _Connection:
    """A socket with what has come on it and was not asked for yet."""

    def __init__(self, port: int, timeout_s: float) -> None:
        self._sock = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self.local_port: int = self._sock.getsockname()[1]
        self._answers: dict[int, Frame] = {}
        self._pushed: list[Frame] = []

    def close(self) -> None:
        self._sock.close()

    def send(self, frame: Frame) -> None:
        self._sock.sendall(frame.encode())

    def answer(self, opaque: int) -> Frame:
        while opaque not in self._answers:
            self._take()
        return self._answers.pop(opaque)

    def pushed(self, code: int) -> Frame:
        while not (found := [frame for frame in self._pushed if frame.fields()["code"] == code]):
            self._take()
        self._pushed.remove(found[0])
        return found[0]

    def _take(self) -> None:
        frame = read_frame(self._sock)
        header = frame.fields()
        if header["flag"] & _RESPONSE:
            self._answers[header["opaque"]] = frame
        else:
            self._pushed.append(frame)


class Replay:
    """One run of one scenario. An effect that does not show in time leaves the last answer, and `late` says so."""

    def __init__(
        self, scenario: Scenario, port: int, namesrv_port: int, work_dir: str, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        self.late: list[str] = []
        self._timeout_s = timeout_s
        self._scenario = scenario
        self._port = port
        self._masks = Masks(port, namesrv_port, int(time.time() * 1000), work_dir)
        self._resources = contextlib.ExitStack()
        self._connections: dict[str, _Connection] = {}
        self._waiting: dict[str, tuple[Ask, int]] = {}
        self._sent: dict[str, dict[str, str]] = {}
        self._opaque = _FIRST_OPAQUE

    def run(self) -> Answers:
        """Every step's answer by its name."""
        answers: Answers = {}
        with self._resources:
            for step in self._scenario.steps:
                if isinstance(step, Close):
                    self._connections.pop(step.on).close()
                    continue
                assert step.name not in answers, f"two steps called {step.name!r}"
                kept = self._take(step)
                if kept is not None:
                    answers[step.name] = kept
        return answers

    def _take(self, step: Ask | Answer | Push) -> Kept | None:
        try:
            if isinstance(step, Push):
                return self._masks.answer(self._connections[step.on].pushed(step.code), step.code)
            if isinstance(step, Answer):
                ask, opaque = self._waiting.pop(step.name)
                return self._masks.answer(self._connection(ask.on).answer(opaque), ask.code)
            return self._ask(step)
        except TimeoutError:
            return SILENCE
        except ConnectionError:
            if isinstance(step, Ask):
                self._connections.pop(step.on).close()
            return CLOSED

    def _ask(self, step: Ask) -> Kept | None:
        deadline = time.monotonic() + self._timeout_s
        while True:
            self._opaque += 1
            connection = self._connection(step.on)
            connection.send(self._request(step))
            if step.one_way:
                return SILENCE
            if step.later:
                self._waiting[step.name] = (step, self._opaque)
                return None
            answer = connection.answer(self._opaque)
            if not (awaited := _is_awaited(step, answer)) and time.monotonic() > deadline:
                self.late.append(step.name)
            if awaited or step.name in self.late:
                self._sent[step.name] = answer.fields().get("extFields") or {}
                return self._masks.answer(answer, step.code, brief=step.brief)
            time.sleep(_POLL_INTERVAL_S)

    def _connection(self, name: str) -> _Connection:
        if name not in self._connections:
            made = _Connection(self._port - 2 if name.startswith("vip") else self._port, self._timeout_s)
            self._resources.callback(made.close)
            self._connections[name] = made
            self._masks.connections[made.local_port] = name
        return self._connections[name]

    def _request(self, step: Ask) -> Frame:
        body = self._filled(step.body.decode("latin-1")).encode("latin-1")
        if step.raw_header is not None:
            return Frame(JSON, self._filled(step.raw_header).replace("OPAQUE", str(self._opaque)).encode(), body)
        fields = {name: self._filled(value) for name, value in step.fields.items()}
        make = binary_header if step.binary else json_header
        flag = _ONE_WAY if step.one_way else 0
        header = make(step.code, fields, opaque=self._opaque, version=step.version, flag=flag)
        return Frame(BINARY if step.binary else JSON, header, body)

    def _filled(self, text: str) -> str:
        return _TOKEN.sub(self._value_of, text)

    def _value_of(self, token: re.Match[str]) -> str:
        what, step, plain = token.groups()
        if plain:
            return str(int(time.time() * 1000) if plain == "now" else self._port)
        sent = self._sent[step]
        if what == "offset":
            return str(int(sent["msgId"].split(",")[0][16:], 16))
        return sent[{"id": "msgId", "key": "transactionId"}[what]]


def _is_awaited(step: Ask, answer: Frame) -> bool:
    header = answer.fields()
    if step.until_code is not None and header["code"] != step.until_code:
        return False
    if not step.until_fields.items() <= (header.get("extFields") or {}).items():
        return False
    return step.until_body is None or step.until_body in answer.body


def main() -> None:
    name, port, namesrv_port, work_dir = sys.argv[1:]
    replay = Replay(scenarios.BY_NAME[name], int(port), int(namesrv_port), work_dir)
    answers = replay.run()
    assert not replay.late, f"still not as awaited after {TIMEOUT_S:g} s: {replay.late}"
    sys.stdout.write(files.dump((), answers))


if __name__ == "__main__":
    main()
