"""Questions asked outside of the measured time: how much is stored, and stores filled quickly."""

from __future__ import annotations

import contextlib
import itertools
import socket
import time
from collections.abc import Iterator, Sequence

from benchmarks import wire
from benchmarks.broker import frames
from benchmarks.broker.frames import QUEUES, Encoder

_AT_ONCE = 64
_BATCH = 32
_BATCHES_IN_FLIGHT = 4
_FAR = 7919  # a prime: sizes of neighbours have nothing in common
_DISPATCH_TIMEOUT_S = 30.0
Address = tuple[str, int]


def taken(sock: socket.socket) -> wire.Answer:
    """The next answer, which must be a success."""
    answer = wire.receive(sock)
    if answer.header["code"] != 0:
        raise RuntimeError(f"the server answered {answer.header}")
    return answer


def stored(sock: socket.socket, topics: Sequence[str], queues: int = QUEUES) -> int:
    """How many messages these topics hold, by the ends of their queues."""
    questions = [frames.max_offset_frame(topic, queue) for topic in topics for queue in range(queues)]
    total = 0
    for start in range(0, len(questions), _AT_ONCE):
        part = questions[start : start + _AT_ONCE]
        sock.sendall(b"".join(part))
        for _ in part:
            answer = taken(sock)
            total += int(answer.header["extFields"]["offset"])
    return total


def settled(sock: socket.socket, topics: Sequence[str]) -> int:
    """How many messages there are once no more appear: Apache's broker fills its queues a moment after the answer."""
    found = -1
    while found != (found := stored(sock, topics)):
        time.sleep(0.1)
    return found


def wait_until_stored(sock: socket.socket, topics: Sequence[str], count: int) -> None:
    """Refuse to measure a server that loses messages."""
    deadline = time.monotonic() + _DISPATCH_TIMEOUT_S
    while (found := stored(sock, topics)) != count:
        if time.monotonic() > deadline or found > count:
            raise RuntimeError(f"{count} messages were acknowledged, {found} are stored")
        time.sleep(0.02)


def create_topics(address: Address, count: int) -> None:
    """Each by its first message, as TBW102 is there for, and every queue by one more."""
    encoder = Encoder()
    keys = frames.spread(count, first=0, size=8)
    with contextlib.closing(wire.connect(*address)) as sock:
        for key in itertools.islice(keys, count):
            wire.ask(sock, encoder.send(key))
        for _ in range(count * (QUEUES - 1) // _AT_ONCE + 1):
            part = list(itertools.islice(keys, _AT_ONCE))
            sock.sendall(b"".join(map(encoder.send, part)))
            for _ in part:
                taken(sock)


def fill(
    address: Address,
    topic: str,
    *,
    per_queue: int,
    size: int,
    queues: int = QUEUES,
    keyed: bool = False,
    varied: bool = False,
) -> None:
    """`per_queue` messages (a multiple of 32) to every queue, in batches. `keyed`: with keys of the user's, too.
    `varied`: keys and bodies differ in length, bodies by up to half of `size` from it."""
    assert per_queue % _BATCH == 0
    encoder = Encoder(keyed=keyed, varied=varied)
    with contextlib.ExitStack() as stack:
        lanes = [
            stack.enter_context(_Lane(address, encoder, _some_messages(topic, queue, size, varied)))
            for queue in range(queues)
        ]
        count = per_queue // _BATCH
        for turn in range(count + _BATCHES_IN_FLIGHT):
            for lane in lanes:
                if turn < count:
                    lane.send()
                if turn >= _BATCHES_IN_FLIGHT:
                    lane.take()


def _some_messages(topic: str, queue: int, size: int, varied: bool) -> list[frames.Key]:
    numbers = range(queue << 20, (queue << 20) + _BATCH * _AT_ONCE)

    def size_of(number: int) -> int:
        return size // 2 + number * _FAR % (size + 1) if varied else size

    return [frames.Key(number, topic, queue, size_of(number)) for number in numbers]


class _Lane:
    """One connection that fills one queue; a few ready batches go round."""

    def __init__(self, address: Address, encoder: Encoder, messages: list[frames.Key]) -> None:
        batches = range(0, len(messages), _BATCH)
        self._batches = itertools.cycle([encoder.batch(messages[start : start + _BATCH]) for start in batches])
        self._sock = wire.connect(*address)

    def __enter__(self) -> _Lane:
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()

    def send(self) -> None:
        self._sock.sendall(next(self._batches))

    def take(self) -> None:
        taken(self._sock)


@contextlib.contextmanager
def consumer(address: Address, topic: str, client_id: str, group: str = frames.CONSUMERS) -> Iterator[socket.socket]:
    """A connection that the broker knows a consumer by; pulls of that consumer may use others."""
    with contextlib.closing(wire.connect(*address)) as sock:
        sock.sendall(frames.heartbeat_frame(topic, client_id=client_id, group=group))
        while not wire.receive(sock).header["flag"] & 1:
            pass  # the broker's own word that the group has changed
        yield sock
