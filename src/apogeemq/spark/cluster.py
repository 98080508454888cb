"""What the processes of a Spark job ask of the cluster. Each process has one connection to it for a group and a set of
options, made when it is first needed."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from apogeemq.blocking.background import background_loop
from apogeemq.client import MessageQueue, PullConsumer, PullOptions
from apogeemq.errors import ApogeeError, NoRoute, RemoteRefused, RouteCause
from apogeemq.protocol.codes import ResponseCode
from apogeemq.spark.connection import Connection

log = logging.getLogger(__name__)

K = TypeVar("K")
T = TypeVar("T")

_numbers = itertools.count(1)

_MAX_QUESTIONS: Final = 64  # at once
# A topic that is asked for and missing, or may not be read, will still be so in a moment; the other causes may pass.
_STAYS: Final = frozenset((RouteCause.NO_AUTO_CREATION, RouteCause.NOT_YET, RouteCause.NOT_READABLE))


class Answers(NamedTuple, Generic[K, T]):
    """What many were asked. Those that did not answer, for all the attempts, are in `failed`."""

    found: dict[K, T]
    failed: dict[K, ApogeeError]


class Cluster:
    """Made by `cluster_of` only. Its methods may be called from any thread; each tries again as the connection's
    options say and then raises the last ApogeeError. Topics are named without the namespace."""

    def __init__(self, connection: Connection, group: str) -> None:
        self.connection = connection
        self.group = group
        options = PullOptions(joins_group=False, pull_timeout_seconds=connection.request_timeout_ms / 1000)
        # Options of ours that the client does not know may differ for one group in one process.
        client = msgspec.structs.replace(
            connection.client_options(), instance_name=f"spark-{os.getpid()}-{next(_numbers)}"
        )
        # For code that runs in the loop; see `run`.
        self.consumer = PullConsumer(connection.name_server, group, options=options, client=client)

    def start(self) -> None:
        background = background_loop()
        background.run(self.consumer.start)
        background.opened(self.consumer.stop)

    def run(self, make_coroutine: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """In the loop of the process; waits for it."""
        return background_loop().run(make_coroutine)

    # -- questions -------------------------------------------------------------------------------------------

    def topics(self) -> tuple[str, ...]:
        """All that a name server knows, the system's among them."""
        return self.run(lambda: self.retried(self.consumer.list_topics))

    def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Those that can be read now. NoRoute when there are none."""
        return self.run(lambda: self.retried(lambda: self.consumer.fetch_queues(topic)))

    def try_queues(self, topics: Iterable[str]) -> Answers[str, tuple[MessageQueue, ...]]:
        return self.run(lambda: self._ask_each(topics, self.consumer.fetch_queues))

    def min_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        return self.asked(queues, self.consumer.min_offset)

    def max_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        return self.asked(queues, self.consumer.max_offset)

    def try_min_offsets(self, queues: Iterable[MessageQueue]) -> Answers[MessageQueue, int]:
        """Brokers that do not answer fail their own queues only. The queues are known to have been there."""
        return self.run(lambda: self._ask_each(queues, self.consumer.min_offset, passes=may_come_back))

    def try_max_offsets(self, queues: Iterable[MessageQueue], *, only_once: bool = False) -> Answers[MessageQueue, int]:
        ends = self.consumer.max_offset
        return self.run(lambda: self._ask_each(queues, ends, passes=may_come_back, only_once=only_once))

    def offsets_at(self, queues: Iterable[MessageQueue], time_ms: int) -> dict[MessageQueue, int]:
        """Of the first message stored at that time or later; the end where there is none."""
        return self.asked(queues, lambda queue: self.consumer.offset_for_time(queue, time_ms))

    def committed(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        """Where the group goes on, as brokers keep it; None where it has not begun."""
        return self.asked(queues, self.consumer.committed)

    def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Let brokers keep where the group goes on."""
        self.asked(offsets, lambda queue: self.consumer.update_consume_offset(queue, offsets[queue]))

    # -- asking ----------------------------------------------------------------------------------------------

    async def retried(
        self, ask: Callable[[], Coroutine[Any, Any, T]], passes: Callable[[ApogeeError], bool] | None = None
    ) -> T:
        """In the loop: what it gives, tried again after failures that may pass."""
        passes = passes or may_pass
        for delay in self.connection.retry_delays():
            try:
                return await ask()
            except ApogeeError as error:
                if not passes(error):
                    raise
                log.warning("%s; trying again in %g s", error, delay)
            await asyncio.sleep(delay)
        return await ask()

    def asked(self, each: Iterable[K], ask: Callable[[K], Coroutine[Any, Any, T]]) -> dict[K, T]:
        """The same question about each; all are answered, or it raises."""
        found, failed = self.run(lambda: self._ask_each(each, ask))
        for error in failed.values():
            raise error
        return found

    async def _ask_each(
        self,
        asked: Iterable[K],
        ask: Callable[[K], Coroutine[Any, Any, T]],
        *,
        passes: Callable[[ApogeeError], bool] | None = None,
        only_once: bool = False,
    ) -> Answers[K, T]:
        answers: Answers[K, T] = Answers({}, {})
        everyone = tuple(asked)
        waiting = iter(everyone)

        async def ask_some() -> None:
            for one in waiting:
                try:
                    answers.found[one] = await (ask(one) if only_once else self.retried(partial(ask, one), passes))
                except ApogeeError as error:
                    answers.failed[one] = error

        await asyncio.gather(*(ask_some() for _ in range(min(_MAX_QUESTIONS, len(everyone)))))
        return answers


def may_pass(error: ApogeeError) -> bool:
    """Whether to try again."""
    return may_come_back(error) and not (isinstance(error, NoRoute) and error.cause in _STAYS)


def may_come_back(error: ApogeeError) -> bool:
    """The same of a queue that has been there: a name server that has just started does not know its topic yet."""
    if isinstance(error, RemoteRefused) and error.code == ResponseCode.NO_PERMISSION:
        return False  # credentials do not get better
    return error.retriable


_clusters: dict[tuple[Connection, str], Cluster] = {}
_making = threading.Lock()


def cluster_of(connection: Connection, group: str) -> Cluster:
    """That of this process."""
    with _making:
        found = _clusters.get((connection, group))
        if found is None:
            found = Cluster(connection, group)
            found.start()
            _clusters[connection, group] = found
        return found


def _leave_to_parent() -> None:
    """A forked child has none of its parent's threads and must not use its sockets."""
    global _clusters, _making
    _clusters, _making = {}, threading.Lock()


os.register_at_fork(after_in_child=_leave_to_parent)
