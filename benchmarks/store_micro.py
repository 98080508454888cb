"""`python -m benchmarks.store_micro`: what one message costs in the store, in µs, without sockets and protocol.

CPU time of this thread, in the best of many short rounds and in the middle one: what other work on the machine took is
not the store's.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from time import thread_time

import typer

from apogeemq.filter.tags import java_hash
from apogeemq.protocol.batch import BatchEntries, encode_batch
from apogeemq.store.config import StoreConfig
from apogeemq.store.message_store import MessageStore
from apogeemq.store.recovery import recover
from apogeemq.store.results import GetStatus, NewMessage

TOPIC = "benchmark-topic"
QUEUES = 16
CLIENTS = 16
BODY = os.urandom(128)
HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"
TAG = java_hash("TagA")
NOW_MS = 1_700_000_000_000
BATCH = 32
ROUND = 1000
TEMPORARY = Path(tempfile.gettempdir())


@contextmanager
def open_store(folder: Path, *, is_indexed: bool = True) -> Iterator[MessageStore]:
    with tempfile.TemporaryDirectory(dir=folder) as root:
        config = StoreConfig(store_path_root_dir=root, message_index_enable=is_indexed)
        store = MessageStore(config, lambda topic, properties, time: 0)
        recover(store)
        try:
            yield store
        finally:
            store.close()


def unique_key(number: int) -> str:
    """As Apache's clients make them: address, pid, class loader, ms, counter. Three messages a ms for each client."""
    client, turn = number % CLIENTS, number // CLIENTS
    return f"7F000001{client + 4000:04X}18B4AAC2{turn // 3 + 77777:08X}{turn & 0xFFFF:04X}"


def messages(numbers: Iterator[int], keys_each: int) -> list[NewMessage]:
    return [new_message(next(numbers), keys_each) for _ in range(ROUND)]


def new_message(number: int, keys_each: int) -> NewMessage:
    _, body, properties = new_part(number, keys_each)
    return NewMessage(
        TOPIC,
        number % QUEUES,
        0,
        0,
        NOW_MS,
        HOST,
        HOST,
        0,
        0,
        body,
        properties,
        TAG,
        keys_of(number, keys_each),
    )


def keys_of(number: int, keys_each: int) -> list[str]:
    return [unique_key(number), *(f"order-{number}-{turn}" for turn in range(keys_each - 1))][:keys_each]


def new_part(number: int, keys_each: int) -> tuple[int, bytes, bytes]:
    keys = keys_of(number, keys_each)
    unique = f"UNIQ_KEY\x01{keys[0]}\x02" if keys else ""
    several = f"KEYS\x01{' '.join(keys[1:])}\x02" if len(keys) > 1 else ""
    properties = (
        f"{unique}WAIT\x01true\x02TAGS\x01TagA\x02{several}"
        "MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01DefaultCluster\x02"
    )
    return (0, BODY, properties.encode())


def least(rounds: int, prepare: Callable[[], Callable[[], object]], per_round: int) -> tuple[float, float]:
    """µs of one operation, in the best round and in the middle one."""
    times = []
    for _ in range(rounds):
        work = prepare()
        began = thread_time()
        work()
        times.append(thread_time() - began)
    times.sort()
    return times[0] / per_round * 1e6, times[len(times) // 2] / per_round * 1e6


def bench_put(folder: Path, rounds: int, keys_each: int) -> tuple[float, float]:
    with open_store(folder, is_indexed=keys_each > 0) as store:
        numbers, now = count(), count(NOW_MS)

        def prepare() -> Callable[[], object]:
            ready, now_ms, put = messages(numbers, keys_each), next(now), store.put

            def work() -> None:
                for message in ready:
                    put(message, now_ms)

            return work

        return least(rounds, prepare, ROUND)


def bench_put_batch(folder: Path, rounds: int, keys_each: int) -> tuple[float, float]:
    with open_store(folder, is_indexed=keys_each > 0) as store:
        numbers, now, turns = count(), count(NOW_MS), ROUND // BATCH

        def body() -> bytes:
            return encode_batch([new_part(next(numbers) * CLIENTS, keys_each) for _ in range(BATCH)])

        def prepare() -> Callable[[], object]:
            now_ms, ready = next(now), [(new_message(turn, 0), body()) for turn in range(turns)]

            def work() -> None:
                for shared, data in ready:
                    store.put_batch(shared, BatchEntries(data), now_ms)

            return work

        return least(rounds, prepare, turns * BATCH)


def bench_get(folder: Path, rounds: int, *, is_contiguous: bool, wanted: set[int] | None = None) -> tuple[float, float]:
    with open_store(folder, is_indexed=False) as store:
        for number in range(QUEUES * 640):
            message = new_message(number, 0)
            if is_contiguous:
                message.queue_id = number // 640
            store.put(message, NOW_MS)

        def work() -> None:
            for queue_id in range(QUEUES):
                offset = 0
                while (got := store.get(TOPIC, queue_id, offset, 32, 262_144, wanted)).status is GetStatus.FOUND:
                    offset = got.next_offset

        return least(rounds, lambda: work, QUEUES * 20)


def main(folder: Path = TEMPORARY, rounds: int = 60) -> None:
    rows = [
        ("put, no key", bench_put(folder, rounds, 0)),
        ("put, unique key", bench_put(folder, rounds, 1)),
        ("put, unique key and a key", bench_put(folder, rounds, 2)),
        (f"put_batch of {BATCH}, per message, no key", bench_put_batch(folder, rounds, 0)),
        (f"put_batch of {BATCH}, per message, unique key", bench_put_batch(folder, rounds, 1)),
        (f"get {BATCH} from {QUEUES} mixed queues", bench_get(folder, rounds, is_contiguous=False)),
        (f"get {BATCH} that lie together", bench_get(folder, rounds, is_contiguous=True)),
        (f"get {BATCH} with a tag filter", bench_get(folder, rounds, is_contiguous=False, wanted={TAG})),
    ]
    typer.echo(f"{'µs':45} {'least':>8} {'middle':>8}")
    for name, (best, middle) in rows:
        typer.echo(f"{name:45} {best:8.2f} {middle:8.2f}")


if __name__ == "__main__":
    typer.run(main)
