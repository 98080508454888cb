"""A name server process under attack: what it counts, logs and weighs, and a witness who is served meanwhile."""

from __future__ import annotations

import contextlib
import re
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Event, Thread
from typing import Any

import msgspec

from apogeemq.model.routes import DataVersion
from apogeemq.protocol.bodies.registration import Registration, TopicConfig, encode_registration
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from tests.peers.ours import NameServer
from tests.peers.process import wait_for
from tests.robustness.raw_peer import RawPeer, request

STEADY_TOPIC = "steady"
STEADY_ADDRESS = "10.0.0.1:10911"
MIB = 1024 * 1024
_PAUSE_S = 0.005  # between two questions of the witness, to leave the processor to the attack
_STATUS = re.compile(r"Status pages: (http://\S+:\d+)/")
_SAMPLE = re.compile(r"(?m)^(apogee_namesrv_\S+) (\S+)$")


def register_request(
    name: str,
    topics: Mapping[str, TopicConfig],
    *,
    address: str = "10.0.0.9:10911",
    body: bytes | None = None,
    fields: Mapping[str, str] | None = None,
) -> bytes:
    """A registration of a 5.5.0 master; `body` and `fields` replace what is right."""
    said = Registration(DataVersion(counter=1, timestamp=1), dict(topics))
    header = {"brokerName": name, "brokerAddr": address, "clusterName": "c", "haServerAddr": "", "brokerId": "0"}
    content = encode_registration(said) if body is None else body
    return request(RequestCode.REGISTER_BROKER, {**header, **(fields or {})}, content)


def route_request(topic: str = STEADY_TOPIC, *, opaque: int = 1) -> bytes:
    return request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, opaque=opaque)


def broker_addresses(answer: Command) -> dict[str, str]:
    """Broker name to its master's address, of a route answer."""
    assert answer.code == ResponseCode.SUCCESS, (answer.code, answer.remark)
    route: dict[str, Any] = msgspec.json.decode(answer.body)
    return {data["brokerName"]: data["brokerAddrs"]["0"] for data in route["brokerDatas"]}


class Attacked:
    """The server, as others see it. Started with its status pages."""

    def __init__(self, server: NameServer) -> None:
        self.server = server

    @property
    def port(self) -> int:
        return self.server.port

    def peer(self, host: str | None = None, *, receive_buffer: int | None = None) -> RawPeer:
        return RawPeer(self.port, host, receive_buffer=receive_buffer)

    # -- what it says of itself ------------------------------------------------------------------------------

    def page(self, path: str) -> bytes:
        address = _STATUS.search(self.server.output())
        assert address is not None, self.server.tail()
        with urllib.request.urlopen(address[1] + path, timeout=60) as response:
            content: bytes = response.read()
        return content

    def counters(self) -> dict[str, float]:
        """Every sample of ours, named without the prefix: `connections`, `connections_closed_total{reason="idle"}`."""
        found = _SAMPLE.findall(self.page("/metrics").decode())
        return {name.removeprefix("apogee_namesrv_"): float(value) for name, value in found}

    def closed(self, reason: str) -> float:
        return self.counters()[f'connections_closed_total{{reason="{reason}"}}']

    def lines_about(self, text: str) -> list[str]:
        """Of its log."""
        return [line for line in self.server.output().splitlines() if text in line]

    def reset_peak(self) -> None:
        Path(f"/proc/{self.server.pid}/clear_refs").write_text("5")

    def memory(self, what: str = "VmRSS") -> int:
        """Bytes resident now (`VmRSS`) or at most since `reset_peak` (`VmHWM`)."""
        status = Path(f"/proc/{self.server.pid}/status").read_text()
        found = re.search(rf"{what}:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024

    # -- others ----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def serving_others(self) -> Iterator[None]:
        """All through the block a broker is registered, and its route asked for and rightly answered each time."""
        witness = _Witness(self.port)
        witness.start()
        try:
            yield
            before = witness.answer_count
            wait_for(
                lambda: witness.answer_count > before or witness.problem is not None,
                "another client is served",
                interval_s=0.005,
            )
        finally:
            witness.end()
        assert witness.problem is None, witness.problem


class _Witness(Thread):
    def __init__(self, port: int) -> None:
        super().__init__(name="witness", daemon=True)
        self._peer = RawPeer(port)
        self._leave = Event()
        self.answer_count = 0
        self.problem: str | None = None
        topics = {name: TopicConfig(name, 4, 4) for name in (STEADY_TOPIC, "other")}
        answer = self._peer.ask(register_request("steady-broker", topics, address=STEADY_ADDRESS))
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    def run(self) -> None:
        try:
            while not self._leave.wait(_PAUSE_S):
                opaque = self.answer_count + 1
                answer = self._peer.ask(route_request(opaque=opaque))
                assert answer.opaque == opaque
                assert broker_addresses(answer) == {"steady-broker": STEADY_ADDRESS}
                self.answer_count += 1
        except Exception as error:
            self.problem = f"after {self.answer_count} answers: {error!r}"

    def end(self) -> None:
        self._leave.set()
        self.join()
        self._peer.socket.close()
