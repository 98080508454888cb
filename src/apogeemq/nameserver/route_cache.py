"""Encoded answers to route queries, made once per change and dialect, bounded in bytes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from hashlib import blake2b

from apogeemq.model.routes import TopicRoute
from apogeemq.protocol.bodies import routes

NO_ROUTE_DIGEST = "none"


class RouteCache:
    """Topic to answer body, one table per dialect.

    `find_route` is asked on a miss. `forget` must be called for every topic whose route may have changed. When the
    answers take more than `max_bytes`, the oldest are dropped: they cost an encoding when asked for again.
    """

    def __init__(self, find_route: Callable[[str], TopicRoute | None], max_bytes: int) -> None:
        self._find_route = find_route
        self._max_bytes = max_bytes
        self._size = 0
        self._standard: dict[str, bytes] = {}
        self._bare: dict[str, bytes] = {}
        # The hot look-ups, for callers to bind once.
        self.get_standard = self._standard.get
        self.get_bare = self._bare.get

    @property
    def size(self) -> int:
        return self._size

    @property
    def count(self) -> int:
        return len(self._standard) + len(self._bare)

    def answer(self, topic: str, standard: bool) -> bytes | None:
        """The encoded route, made if need be; None when there is none."""
        answers = self._standard if standard else self._bare
        body = answers.get(topic)
        if body is None:
            route = self._find_route(topic)
            if route is None:
                return None
            body = routes.encode(routes.topic_route(route), standard)
            answers[topic] = body
            self._size += len(body)
            if self._size > self._max_bytes:
                self._shrink(answers)
        return body

    def digest(self, topic: str) -> str:
        """Equal for equal routes, on any name server and after any restart."""
        body = self.answer(topic, standard=True)
        return NO_ROUTE_DIGEST if body is None else blake2b(body, digest_size=8).hexdigest()

    def forget(self, topics: Collection[str]) -> None:
        for answers in (self._standard, self._bare):
            if answers:
                for topic in topics:
                    body = answers.pop(topic, None)
                    if body is not None:
                        self._size -= len(body)

    def clear(self) -> None:
        self._standard.clear()
        self._bare.clear()
        self._size = 0

    def _shrink(self, fresh: dict[str, bytes]) -> None:
        """Drop the oldest tenth, the other dialect's first; the answer just made is the newest of its table."""
        wanted = self._max_bytes - self._max_bytes // 10
        other = self._bare if fresh is self._standard else self._standard
        for answers in (other, fresh):
            while answers and self._size > wanted:
                self._size -= len(answers.pop(next(iter(answers))))
