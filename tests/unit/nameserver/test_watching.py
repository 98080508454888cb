"""Route watch: requests held until a route they name changes. No sleeping: the loop turns, or a timer is asked."""

from __future__ import annotations

import asyncio
import json

import pytest

from apogeemq.errors import RequestRefused
from apogeemq.nameserver.watching import RouteWatchers
from apogeemq.protocol.codes import ResponseCode
from tests.unit.event_loop import in_loop

FOREVER = 1_000.0


class Routes(dict[str, str]):
    """Topic to digest, and the watchers over them."""

    def __init__(self, max_topics: int = 10_000, /, **digests: str) -> None:
        super().__init__(digests)
        self.watchers = RouteWatchers(lambda topic: self.get(topic, "none"), max_topics)
        self.encoded_count = 0

    def watch(self, timeout_seconds: float = FOREVER, /, **known: str) -> asyncio.Future[bytes]:
        return self.watchers.watch(known, timeout_seconds, self.encode)

    def watch_all(self) -> asyncio.Future[bytes]:
        return self.watchers.watch(dict(self), FOREVER, self.encode)

    def encode(self, changed: dict[str, str]) -> bytes:
        self.encoded_count += 1
        return json.dumps(changed).encode()

    def change(self, **digests: str) -> None:
        self.update(digests)
        self.watchers.topics_changed(digests)


async def turn() -> None:
    """All that was scheduled by now, and its consequences, has happened."""
    for _ in range(3):
        await asyncio.sleep(0)


@in_loop
async def test_watch_of_what_is_out_of_date_is_answered_at_once() -> None:
    routes = Routes(T="2", U="1")
    answer = routes.watch(T="1", U="1")
    assert json.loads(answer.result()) == {"T": "2"}
    assert routes.watchers.count == 0


@in_loop
async def test_watch_is_held_until_a_topic_it_names_changes() -> None:
    routes = Routes(T="1", U="1")
    answer = routes.watch(T="1", U="1")
    routes.change(V="1")
    await turn()
    assert not answer.done()
    assert routes.watchers.count == 1
    routes.change(U="2")
    await turn()
    assert json.loads(answer.result()) == {"U": "2"}
    assert routes.watchers.count == 0


@in_loop
async def test_topic_without_a_route_can_be_watched() -> None:
    routes = Routes()
    answer = routes.watch(T="none")
    routes.change(T="1")
    await turn()
    assert json.loads(answer.result()) == {"T": "1"}


@in_loop
async def test_changes_of_one_moment_come_in_one_answer() -> None:
    routes = Routes(T="1", U="1")
    answer = routes.watch(T="1", U="1")
    routes.change(T="2")
    routes.change(U="2")
    await turn()
    assert json.loads(answer.result()) == {"T": "2", "U": "2"}
    assert routes.encoded_count == 1


@in_loop
async def test_route_that_changed_and_changed_back_wakes_nobody() -> None:
    routes = Routes(T="1")
    answer = routes.watch(T="1")
    routes.change(T="2")
    routes.change(T="1")
    await turn()
    assert not answer.done()
    routes.change(T="3")
    await turn()
    assert answer.done()


@in_loop
async def test_every_watcher_of_a_topic_is_woken() -> None:
    routes = Routes(T="1", U="1")
    first, second, other = routes.watch(T="1"), routes.watch(T="1", U="1"), routes.watch(U="1")
    routes.change(T="2")
    await turn()
    assert first.done()
    assert second.done()
    assert not other.done()


@in_loop
async def test_time_over_is_an_answer_without_changes() -> None:
    routes = Routes(T="1")
    assert json.loads(await routes.watch(0.001, T="1")) == {}
    await turn()
    assert routes.watchers.count == 0


@in_loop
async def test_no_time_at_all_only_asks() -> None:
    routes = Routes(T="1")
    assert json.loads(routes.watch(0, T="1").result()) == {}
    assert routes.watchers.count == 0


@in_loop
async def test_watcher_that_is_gone_is_forgotten() -> None:
    routes = Routes(T="1")
    answer = routes.watch(T="1")
    answer.cancel()
    await turn()
    assert routes.watchers.count == 0
    routes.change(T="2")
    await turn()
    assert routes.encoded_count == 0


@in_loop
async def test_watcher_that_goes_while_it_is_being_woken_is_no_trouble() -> None:
    routes = Routes(T="1")
    answer, other = routes.watch(T="1"), routes.watch(T="1")
    routes.change(T="2")
    answer.cancel()
    await turn()
    assert other.done()
    assert routes.watchers.count == 0


@in_loop
async def test_stopping_server_releases_everybody() -> None:
    routes = Routes(T="1", U="1")
    answers = [routes.watch(T="1", U="1"), routes.watch(U="1")]
    routes.watchers.release_all()
    assert [json.loads(await answer) for answer in answers] == [{}, {}]
    await turn()
    assert routes.watchers.count == 0
    with pytest.raises(RequestRefused) as caught:  # a watcher that begins anew would hold the server up
        routes.watch(T="1")
    assert caught.value.code == ResponseCode.GO_AWAY


@in_loop
async def test_many_watchers_are_woken_over_several_turns() -> None:
    """So that whoever asks something else is served in between."""
    routes = Routes()
    routes.update({f"T{number}": "1" for number in range(1_000)})
    answers = [routes.watch_all() for _ in range(10)]
    routes.change(T5="2")
    done_after_each_turn = []
    while not all(answer.done() for answer in answers):
        await asyncio.sleep(0)
        done_after_each_turn.append(sum(answer.done() for answer in answers))
    assert done_after_each_turn[-1] == 10
    assert 0 < done_after_each_turn[0] < 10
    assert all(json.loads(answer.result()) == {"T5": "2"} for answer in answers)


@in_loop
async def test_change_while_watchers_are_being_woken_is_not_lost() -> None:
    routes = Routes()
    routes.update({f"T{number}": "1" for number in range(1_000)})
    answers = [routes.watch_all() for _ in range(10)]
    routes.change(T5="2")
    await asyncio.sleep(0)
    routes.change(T6="2")
    changed = [json.loads(answer) for answer in await asyncio.gather(*answers)]
    assert all("T5" in one for one in changed)
    assert {"T5": "2", "T6": "2"} in changed


@in_loop
async def test_topics_of_all_watches_together_are_limited() -> None:
    routes = Routes(3, T="1", U="1")
    first = routes.watch(T="1", U="1")
    with pytest.raises(RequestRefused, match="2 topics are watched already") as caught:
        routes.watch(T="1", U="1")
    assert caught.value.code == ResponseCode.SYSTEM_BUSY
    assert not routes.watch(T="1").done()
    first.cancel()
    await turn()
    assert not routes.watch(T="1", U="1").done()
    assert routes.watchers.count == 2
