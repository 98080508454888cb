"""Route watch: requests held until the route of a topic they name changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from apogeemq.errors import RequestRefused
from apogeemq.protocol.codes import ResponseCode

MAX_WATCHED_TOPICS = 1_000_000  # of all watches together; some 200 bytes each
_TOPICS_PER_TURN = 2_000  # looked at before others have their turn: a few milliseconds

# From the topics that changed (with their new digests) to the answer; empty when the time is over.
EncodeAnswer = Callable[[dict[str, str]], bytes]


class _Watcher:
    __slots__ = ("answer", "encode", "known", "timer")

    def __init__(self, known: Mapping[str, str], answer: asyncio.Future[bytes], encode: EncodeAnswer) -> None:
        self.known = known
        self.answer = answer
        self.encode = encode
        self.timer: asyncio.TimerHandle | None = None


class RouteWatchers:
    """Who waits for which topic.

    Changes are gathered until the loop turns, so that a broker that joins with a thousand topics wakes each watcher
    once. A route that changed and changed back wakes nobody. Many watchers are woken over several turns, so that
    others are served meanwhile and the answers need not all be held at once.
    """

    def __init__(self, digest_of: Callable[[str], str], max_topics: int = MAX_WATCHED_TOPICS) -> None:
        self._digest_of = digest_of
        self._max_topics = max_topics
        self._by_topic: dict[str, set[_Watcher]] = {}
        self._touched: dict[_Watcher, None] = {}  # in order, to be woken
        self._count = 0
        self._topic_count = 0
        self._is_ending = False

    @property
    def count(self) -> int:
        return self._count

    def watch(self, known: Mapping[str, str], timeout_seconds: float, encode: EncodeAnswer) -> asyncio.Future[bytes]:
        """Answered at once if a digest in `known` is out of date already. RequestRefused when too many topics are."""
        if self._is_ending:
            raise RequestRefused(ResponseCode.GO_AWAY, "please go away")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        changed = self._changed(known)
        if changed or timeout_seconds <= 0:
            answer.set_result(encode(changed))
            return answer
        if self._topic_count + len(known) > self._max_topics:
            raise RequestRefused(ResponseCode.SYSTEM_BUSY, f"{self._topic_count} topics are watched already")
        watcher = _Watcher(known, answer, encode)
        self._count += 1
        self._topic_count += len(known)
        for topic in known:
            self._by_topic.setdefault(topic, set()).add(watcher)
        watcher.timer = loop.call_later(timeout_seconds, self._answer, watcher, {})
        answer.add_done_callback(lambda _: self._drop(watcher))  # answered, or the connection is gone
        return answer

    def topics_changed(self, topics: Iterable[str]) -> None:
        if not self._by_topic:
            return
        is_first = not self._touched
        for topic in topics:
            self._touched.update(dict.fromkeys(self._by_topic.get(topic, ())))
        if is_first and self._touched:
            asyncio.get_running_loop().call_soon(self._wake)

    def release_all(self) -> None:
        """The server stops: everybody is told that nothing changed, and nobody can begin anew what it waits for."""
        self._is_ending = True
        for watcher in {watcher for watchers in self._by_topic.values() for watcher in watchers}:
            self._answer(watcher, {})

    def _wake(self) -> None:
        looked_at = 0
        while self._touched and looked_at < _TOPICS_PER_TURN:
            watcher = next(iter(self._touched))
            del self._touched[watcher]
            if watcher.answer.done():
                continue
            looked_at += len(watcher.known)
            changed = self._changed(watcher.known)
            if changed:
                self._answer(watcher, changed)
        if self._touched:
            asyncio.get_running_loop().call_soon(self._wake)

    def _changed(self, known: Mapping[str, str]) -> dict[str, str]:
        return {topic: now for topic, digest in known.items() if (now := self._digest_of(topic)) != digest}

    def _answer(self, watcher: _Watcher, changed: dict[str, str]) -> None:
        if not watcher.answer.done():
            watcher.answer.set_result(watcher.encode(changed))

    def _drop(self, watcher: _Watcher) -> None:
        if watcher.timer is not None:
            watcher.timer.cancel()
        self._count -= 1
        self._topic_count -= len(watcher.known)
        for topic in watcher.known:
            watchers = self._by_topic.get(topic)
            if watchers is not None:
                watchers.discard(watcher)
                if not watchers:
                    del self._by_topic[topic]
