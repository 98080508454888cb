"""Any order of what brokers, programs and rebalances do to messages, against what must hold in all of them."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from apogeemq.client.consuming.incoming import ConsumedMessage
from apogeemq.client.consuming.pushing import delivery as delivery_module
from apogeemq.client.consuming.pushing.delivery import Delivery
from apogeemq.client.consuming.pushing.ordered_delivery import OrderedDelivery
from apogeemq.client.consuming.queue_reader import QueueReader
from apogeemq.model.queues import MessageQueue
from tests.unit.client.consuming.messages import idle_reader, message
from tests.unit.client.consuming.pushing.deliveries import Back

ACTIONS = ("come", "come", "take", "take", "ack", "retry", "dead", "seek", "wait")
STEPS = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 9)), max_size=60)


class World:
    """Two queues, of which the messages from offset 0 on are there."""

    def __init__(self, folder: Path, *, is_ordered: bool, works: bool) -> None:
        back = Back(works=works, most=2)
        self.is_ordered = is_ordered
        self.delivery = OrderedDelivery(back, suspend_seconds=0.0) if is_ordered else Delivery(back)
        self.readers = [idle_reader(folder, MessageQueue("b", number, "T"), is_ordered=is_ordered) for number in (0, 1)]
        self.out: list[ConsumedMessage] = []
        self.settled: dict[QueueReader, set[int]] = {reader: set() for reader in self.readers}
        self.next: dict[QueueReader, int] = dict.fromkeys(self.readers, 0)

    def reader_of(self, taken: ConsumedMessage) -> QueueReader:
        return self.readers[taken.queue.queue_id]

    async def step(self, what: str, number: int) -> None:
        reader = self.readers[number % 2]
        if what == "come":
            first = self.next[reader]
            self.next[reader] = first + number // 2
            fresh = reader.process.put([message(first + n, queue=reader.queue) for n in range(number // 2)])
            self.delivery.deliver(reader, fresh)
        elif what == "take" and (taken := self.delivery.take_now()) is not None:
            self.take(taken)
        elif what == "seek":
            reader.seek(number)
            self.next[reader] = number
            self.settled[reader] = set()
        elif what == "wait":
            await asyncio.sleep(0.001)
        elif self.out and what in ("ack", "retry", "dead"):
            await self.settle(self.out.pop(number % len(self.out)), what)

    def take(self, taken: ConsumedMessage) -> None:
        if self.is_ordered:
            assert taken.queue not in {each.queue for each in self.out}
            before = self.settled[self.reader_of(taken)]
            assert not before or taken.queue_offset > max(before)
        self.out.append(taken)

    async def settle(self, taken: ConsumedMessage, how: str) -> None:
        reader = self.reader_of(taken)
        held = reader.process._taken.get(taken.queue_offset)
        is_counted = held is not None and held[1] is taken
        if how == "ack":
            await taken.ack()
        else:
            await taken.retry(-1 if how == "dead" else 0)
        assert not taken.is_settled or taken.queue_offset not in reader.process._taken
        if is_counted and taken.queue_offset not in reader.process._unfinished:
            self.settled[reader].add(taken.queue_offset)

    def check(self) -> None:
        for reader in self.readers:
            unfinished = reader.process._unfinished
            known = reader._reading.offsets.known(reader.queue)
            assert all(known <= offset for offset in unfinished)

    async def end(self) -> None:
        """Everything that came is either done with or can still be taken."""
        for taken in self.out:
            await taken.ack()
        self.out = []
        while any(len(reader.process) for reader in self.readers):
            async with asyncio.timeout(5):
                last = await self.delivery.take()
            assert last is not None
            await last.ack()
        for reader in self.readers:
            if self.next[reader] and reader.process.commit_offset >= 0:
                assert reader._reading.offsets.known(reader.queue) == self.next[reader]


@settings(deadline=None, max_examples=150)
@given(STEPS, st.booleans(), st.booleans())
def test_whatever_happens_nothing_is_lost_and_the_order_is_kept(
    steps: list[tuple[str, int]], is_ordered: bool, works: bool
) -> None:
    async def play() -> None:
        world = World(Path(folder), is_ordered=is_ordered, works=works)
        for what, number in steps:
            await world.step(what, number)
            world.check()
        await world.end()
        world.delivery.close()

    before, delivery_module.LOCAL_RETRY_SECONDS = delivery_module.LOCAL_RETRY_SECONDS, 0.0
    try:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(play())
    finally:
        delivery_module.LOCAL_RETRY_SECONDS = before
