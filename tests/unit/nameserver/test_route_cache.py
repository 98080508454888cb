"""Encoded answers: made once, dropped when told, bounded in bytes."""

from __future__ import annotations

from apogeemq.model.routes import BrokerGroup, QueueSettings, TopicRoute
from apogeemq.nameserver.route_cache import NO_ROUTE_DIGEST, RouteCache


class Routes:
    """Topics that exist, and how often they were looked for."""

    def __init__(self, *topics: str, max_bytes: int = 1_000_000) -> None:
        self.topics = set(topics)
        self.asked: list[str] = []
        self.perm = 6
        self.cache = RouteCache(self.find, max_bytes)

    def find(self, topic: str) -> TopicRoute | None:
        self.asked.append(topic)
        if topic not in self.topics:
            return None
        group = BrokerGroup("c", "b", {0: "a:1", 1: "a:2"})
        return TopicRoute({"b": QueueSettings(4, 4, self.perm, 0)}, [group], {})


def test_answer_is_made_once_per_dialect() -> None:
    routes = Routes("T")
    standard, bare = routes.cache.answer("T", True), routes.cache.answer("T", False)
    assert standard is not None
    assert bare is not None
    assert b'{"0":"a:1","1":"a:2"}' in standard
    assert b'{0:"a:1",1:"a:2"}' in bare
    assert routes.cache.answer("T", True) is standard
    assert routes.cache.answer("T", False) is bare
    assert routes.asked == ["T", "T"]
    assert routes.cache.get_standard("T") is standard
    assert routes.cache.get_bare("T") is bare


def test_size_and_count_are_those_of_the_answers() -> None:
    routes = Routes("T", "U")
    answers = [routes.cache.answer("T", True), routes.cache.answer("T", False), routes.cache.answer("U", True)]
    assert routes.cache.count == 3
    assert routes.cache.size == sum(len(answer or b"") for answer in answers)
    routes.cache.forget(["T"])
    assert (routes.cache.count, routes.cache.size) == (1, len(answers[2] or b""))
    routes.cache.clear()
    assert (routes.cache.count, routes.cache.size) == (0, 0)


def test_no_route_is_not_remembered() -> None:
    routes = Routes()
    assert routes.cache.answer("T", True) is None
    routes.topics.add("T")
    assert routes.cache.answer("T", True) is not None


def test_forgotten_answer_is_made_anew() -> None:
    routes = Routes("T")
    before = routes.cache.answer("T", True)
    routes.perm = 4
    assert routes.cache.answer("T", True) == before
    routes.cache.forget(["T", "unknown"])
    assert routes.cache.answer("T", True) != before
    assert routes.cache.get_standard("T") is not None


def test_bytes_are_bounded_and_the_newest_answer_stays() -> None:
    size = len(Routes("T").cache.answer("T", True) or b"")
    names = [f"T{number}" for number in range(100)]
    routes = Routes(*names, max_bytes=10 * size)
    for name in names:
        assert routes.cache.answer(name, True) is not None
        assert routes.cache.answer(name, False) is not None
        assert routes.cache.size <= 10 * size
        assert routes.cache.get_bare(name) is not None


def test_answer_larger_than_the_cache_is_still_given() -> None:
    routes = Routes("T", max_bytes=0)
    assert routes.cache.answer("T", True) is not None
    assert routes.cache.size == 0


def test_digest_is_that_of_the_route() -> None:
    first, second = Routes("T"), Routes("T")
    assert first.cache.digest("T") == second.cache.digest("T")
    second.perm = 4
    second.cache.clear()
    assert first.cache.digest("T") != second.cache.digest("T")
    assert first.cache.digest("none of that name") == NO_ROUTE_DIGEST
