"""Route watch and route journal, over the wire."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from apogeemq.nameserver.route_cache import NO_ROUTE_DIGEST
from apogeemq.protocol.codes import RequestCode, ResponseCode
from tests.unit.event_loop import in_loop
from tests.unit.nameserver.live import Client, Home, eventually

WATCH, JOURNAL = RequestCode.WATCH_ROUTES, RequestCode.READ_ROUTE_JOURNAL


async def watch(client: Client, known: dict[str, str], timeout_ms: int = 15_000) -> dict[str, Any]:
    body = msgspec.json.encode({"topics": known})
    answer = await client.ok(WATCH, body, timeoutMillis=str(timeout_ms))
    changed: dict[str, Any] = msgspec.json.decode(answer.body)["changed"]
    return changed


@in_loop
async def test_watch_goes_on_from_answer_to_answer(home: Home) -> None:
    async with home.serve() as running:
        watcher, broker = running.client(), running.client()
        watchers = running.name_server.registry.watchers
        assert (await watch(watcher, {"TopicA": ""}))["TopicA"] == {"digest": NO_ROUTE_DIGEST, "route": None}

        held = asyncio.ensure_future(watch(watcher, {"TopicA": NO_ROUTE_DIGEST}))
        await eventually(lambda: watchers.count == 1)
        await broker.register()
        found = (await held)["TopicA"]
        assert found["route"] == await watcher.route("TopicA")

        held = asyncio.ensure_future(watch(watcher, {"TopicA": found["digest"]}))
        await eventually(lambda: watchers.count == 1)
        await watcher.ok(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="broker-a")
        found = (await held)["TopicA"]
        assert found["route"]["queueDatas"][0]["perm"] == 4

        held = asyncio.ensure_future(watch(watcher, {"TopicA": found["digest"]}))
        await eventually(lambda: watchers.count == 1)
        await running.closed(broker)
        assert (await held)["TopicA"] == {"digest": NO_ROUTE_DIGEST, "route": None}


@in_loop
async def test_watch_ends_empty_when_its_time_is_over(home: Home) -> None:
    async with home.serve() as running:
        client = running.client()
        for timeout_ms in (1, 0, -5):
            assert await watch(client, {"T": NO_ROUTE_DIGEST}, timeout_ms) == {}
        assert running.name_server.registry.watchers.count == 0


@in_loop
async def test_watch_ends_with_its_connection(home: Home) -> None:
    async with home.serve() as running:
        client = running.client()
        held = asyncio.ensure_future(watch(client, {"T": NO_ROUTE_DIGEST}))
        await eventually(lambda: running.name_server.registry.watchers.count == 1)
        await running.closed(client)
        await asyncio.gather(held, return_exceptions=True)
        await eventually(lambda: running.name_server.registry.watchers.count == 0)
        assert running.name_server.server.held_count == 0


@in_loop
async def test_stopping_server_answers_its_watchers(home: Home) -> None:
    async with home.serve() as running:
        client = running.client()
        held = asyncio.ensure_future(watch(client, {"T": NO_ROUTE_DIGEST}))
        await eventually(lambda: running.name_server.registry.watchers.count == 1)
        await running.name_server.stop()
        assert await held == {}


@in_loop
async def test_watch_names_topics_but_not_too_many(home: Home) -> None:
    async with home.serve(maxWatchTopics="3") as running:
        client = running.client()
        for count in (0, 4):
            known = {f"T{number}": "" for number in range(count)}
            assert await client.refused(WATCH, msgspec.json.encode({"topics": known})) == (
                ResponseCode.SYSTEM_ERROR,
                f"a watch names 1 to 3 topics, not {count}",
            )
        assert (await client.refused(WATCH))[0] == ResponseCode.SYSTEM_ERROR
        assert (await client.refused(WATCH, b'{"topics":{"T":1'))[0] == ResponseCode.SYSTEM_ERROR


@in_loop
async def test_answer_is_bounded_and_the_rest_comes_with_the_next(home: Home) -> None:
    topics = [f"T{number:02d}" for number in range(20)]
    async with home.serve() as running:
        client = running.client()
        await client.register(topics=topics, address="a" * 300_000)
        known = dict.fromkeys(topics, NO_ROUTE_DIGEST)
        found = await watch(client, known)
        assert 1 < len(found) < 20
        known |= {topic: entry["digest"] for topic, entry in found.items()}
        rest = await watch(client, known)
        assert sorted([*found, *rest]) == topics


@in_loop
async def test_held_requests_are_limited(home: Home) -> None:
    async with home.serve(maxHeldRequests="2") as running:
        client = running.client()
        held = [asyncio.ensure_future(watch(client, {"T": NO_ROUTE_DIGEST})) for _ in range(2)]
        await eventually(lambda: running.name_server.registry.watchers.count == 2)
        body = msgspec.json.encode({"topics": {"T": NO_ROUTE_DIGEST}})
        assert (await client.refused(WATCH, body))[0] == ResponseCode.SYSTEM_BUSY
        await running.client().register(topics=["T", "U"])
        assert all("T" in changed for changed in await asyncio.gather(*held))


@pytest.mark.parametrize("timeout", ["abc", "99999999999999999999"])
@in_loop
async def test_time_that_is_no_number_is_the_default(home: Home, timeout: str) -> None:
    async with home.serve() as running:
        body = msgspec.json.encode({"topics": {"T": ""}})
        answer = await running.client().ok(WATCH, body, timeoutMillis=timeout)
        assert b'"digest":"none"' in answer.body


@in_loop
async def test_journal_is_read_from_a_number_in_pages(home: Home) -> None:
    async with home.serve() as running:
        client = running.client()
        await client.register()
        await client.ok(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="broker-a")
        answer = await client.ok(JOURNAL, maxLines="2")
        assert answer.fields() == {"nextSequence": "3", "firstSequence": "1", "lastSequence": "4"}
        answer = await client.ok(JOURNAL, fromSequence="3")
        kinds = [msgspec.json.decode(line)["kind"] for line in answer.body.splitlines()]
        assert kinds == ["topic_added", "write_permission_wiped"]
        answer = await client.ok(JOURNAL, fromSequence=answer.fields()["nextSequence"])
        assert (answer.body, answer.fields()["nextSequence"]) == (b"", "5")


@in_loop
async def test_journal_numbers_go_on_after_a_restart(home: Home) -> None:
    async with home.serve() as running:
        await running.client().register()
    async with home.serve() as running:
        client = running.client()
        await client.register(zone="z")
        answer = await client.ok(JOURNAL, fromSequence="4")
        (line,) = answer.body.splitlines()
        assert msgspec.json.decode(line)["kind"] == "broker_changed"


@in_loop
async def test_journal_numbers_go_on_when_its_files_are_gone(home: Home) -> None:
    async with home.serve() as running:
        await running.client().register()
    for path in (home.folder / "journal").iterdir():
        path.unlink()
    async with home.serve() as running:
        client = running.client()
        await client.register("broker-b")
        fields = (await client.ok(JOURNAL)).fields()
        assert fields["firstSequence"] == "4"


@in_loop
async def test_journal_can_be_turned_off(home: Home) -> None:
    async with home.serve(journalEnable="false") as running:
        client = running.client()
        await client.register()
        code, remark = await client.refused(JOURNAL)
        assert code == ResponseCode.SYSTEM_ERROR
        assert "journalEnable" in (remark or "")
        assert not (home.folder / "journal").exists()
