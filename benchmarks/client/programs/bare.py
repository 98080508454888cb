"""No client at all: ready-encoded frames on a blocking socket, the next one when the last was answered.

How fast a broker is with one message in flight; no client can be faster. The argument is the broker's address."""

from __future__ import annotations

import itertools
import sys
import time
from typing import Any

from benchmarks import wire
from benchmarks.broker.frames import QUEUES, Encoder, Key
from benchmarks.client.programs.commands import Job, Measured, answer, jobs

_FRAMES = 4_096  # that go round
_LENGTH = 4
_STORED = b'"code":0,'


def send(address: str, job: Job) -> dict[str, Any]:
    encoder = Encoder()
    frames = [encoder.send(Key(number, job.topic, number % QUEUES, job.size)) for number in range(_FRAMES)]
    host, port = address.split(":")
    with wire.connect(host, int(port)) as connection:
        wire.ask(connection, frames[0])
        measured, count = Measured(), 0
        until = time.perf_counter() + job.seconds
        for frame in itertools.cycle(frames):
            connection.sendall(frame)
            data = connection.recv(4096)
            if len(data) != _LENGTH + int.from_bytes(data[:_LENGTH], "big") or _STORED not in data:
                raise RuntimeError(f"not one answer that the message is stored: {data!r}")
            count += 1
            if time.perf_counter() >= until:
                break
        return measured.stop(count)


def main(address: str) -> None:
    for job in jobs():
        answer(send(address, job))


if __name__ == "__main__":
    main(*sys.argv[1:])
