"""Route watch: requests held until the route of a topic they name changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

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
    once. A route that changed and changed back wakes nobody.
    """

    def __init__(self, digest_of: Callable[[str], str]) -> None:
        self._digest_of = digest_of
        self._by_topic: dict[str, set[_Watcher]] = {}
        self._touched: set[_Watcher] = set()
        self._count = 0

    @property
    def count(self) -> int:
        return self._count

    def watch(self, known: Mapping[str, str], timeout_seconds: float, encode: EncodeAnswer) -> asyncio.Future[bytes]:
        """Answered at once if a digest in `known` is out of date already."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        changed = self._changed(known)
        if changed or timeout_seconds <= 0:
            answer.set_result(encode(changed))
            return answer
        watcher = _Watcher(known, answer, encode)
        self._count += 1
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
            self._touched.update(self._by_topic.get(topic, ()))
        if is_first and self._touched:
            asyncio.get_running_loop().call_soon(self._wake)

    def release_all(self) -> None:
        """The server stops: everybody is told that nothing changed."""
        for watcher in {watcher for watchers in self._by_topic.values() for watcher in watchers}:
            self._answer(watcher, {})

    def _wake(self) -> None:
        touched, self._touched = self._touched, set()
        for watcher in touched:
            changed = self._changed(watcher.known)
            if changed:
                self._answer(watcher, changed)

    def _changed(self, known: Mapping[str, str]) -> dict[str, str]:
        return {topic: now for topic, digest in known.items() if (now := self._digest_of(topic)) != digest}

    def _answer(self, watcher: _Watcher, changed: dict[str, str]) -> None:
        if not watcher.answer.done():
            watcher.answer.set_result(watcher.encode(changed))

    def _drop(self, watcher: _Watcher) -> None:
        if watcher.timer is not None:
            watcher.timer.cancel()
        self._count -= 1
        for topic in watcher.known:
            watchers = self._by_topic.get(topic)
            if watchers is not None:
                watchers.discard(watcher)
                if not watchers:
                    del self._by_topic[topic]
