"""What differs between name servers, and how it is said."""

from __future__ import annotations

from pathlib import Path

from apogeemq.admin.agreement import Difference, View, compare, complete_kv, look
from apogeemq.admin.nameserver import NameServerAdmin
from apogeemq.model.routes import BrokerGroup, QueueMapping, QueueSettings, TopicRoute
from apogeemq.protocol.codes import RequestCode
from tests.unit.event_loop import in_loop
from tests.unit.name_servers import broker, connections, name_server, register, topics

QUEUES = QueueSettings(4, 4, 6, 0)


def group(name: str, *addresses: str, zone: str | None = None) -> BrokerGroup:
    return BrokerGroup("c", name, dict(enumerate(addresses)), zone)


def view(groups: list[BrokerGroup], routes: dict[str, dict[str, QueueSettings]] | None = None) -> View:
    """A name server that knows these groups, and per topic the queues on each."""
    by_name = {each.name: each for each in groups}
    return View(
        by_name,
        {"c": list(by_name)} if by_name else {},
        {
            topic: TopicRoute(queues, [by_name[name] for name in queues if name in by_name], {})
            for topic, queues in (routes or {}).items()
        },
    )


A, B = group("a", "10.0.0.1:1"), group("b", "10.0.0.2:1")


def test_the_same_in_another_order_is_no_difference() -> None:
    one = view([A, B], {"T": {"a": QUEUES, "b": QUEUES}, "U": {"a": QUEUES}})
    other = view([B, A], {"U": {"a": QUEUES}, "T": {"b": QUEUES, "a": QUEUES}})
    other.routes["T"].brokers.reverse()
    other.routes["T"].filter_servers = {"10.0.0.1:1": []}
    other.kv = {"used once": {}}
    assert compare({"x": one, "y": other}) == []


def test_nobody_or_one_alone_agrees() -> None:
    assert compare({}) == []
    assert compare({"x": view([A])}) == []


def test_a_broker_that_is_lacked_is_said_once() -> None:
    whole = view([A, B], {"T": {"a": QUEUES, "b": QUEUES}, "U": {"b": QUEUES}})
    partial = view([A], {"T": {"a": QUEUES}})
    assert compare({"x": whole, "y": partial}) == [
        Difference("broker", "b", {"x": "c: 0=10.0.0.2:1", "y": None}, "and the 2 topics it serves")
    ]


def test_a_broker_known_otherwise() -> None:
    others = [group("a", "10.0.0.1:1", "10.0.0.9:1"), group("a", "10.0.0.1:1", zone="z")]
    for number, other in enumerate(others):
        (difference,) = compare({"x": view([A], {"T": {"a": QUEUES}}), "y": view([other], {"T": {"a": QUEUES}})})
        assert difference.said["y"] == ("c: 0=10.0.0.1:1, 1=10.0.0.9:1", "c: 0=10.0.0.1:1, zone z")[number]
        assert difference.note == ""


def test_topics_that_differ_or_are_missing() -> None:
    one = view([A], {"T": {"a": QUEUES}, "U": {"a": QUEUES}})
    other = view([A], {"T": {"a": QueueSettings(8, 4, 4, 1)}})
    assert compare({"x": one, "y": other}) == [
        Difference("topic", "T", {"x": "a 4r 4w RW-", "y": "a 8r 4w R-- flag 1"}),
        Difference("topic", "U", {"x": "a 4r 4w RW-", "y": None}),
    ]


def test_the_rest_of_a_route() -> None:
    one, other = view([A], {"T": {"a": QUEUES}}), view([A], {"T": {"a": QUEUES}})
    route = other.routes["T"]
    route.order_conf = "a:4"
    route.filter_servers = {"10.0.0.1:1": ["f2", "f1"]}
    route.queue_mappings = {"a": QueueMapping("a", topic="T", totalQueues=4)}
    route.brokers = [group("a", "10.0.0.7:1")]  # not as the same server lists it: an acting master
    (difference,) = compare({"x": one, "y": other})
    said = difference.said["y"]
    assert said is not None
    for part in ("a as c: 0=10.0.0.7:1", "order a:4", "filter 10.0.0.1:1 f1, f2", 'a maps {"bname":"a"'):
        assert part in said


def test_clusters_and_kv() -> None:
    one, other = view([A]), view([A])
    other.clusters = {"c": ["a"], "d": ["a"]}
    one.kv = {"n s": {"k": "1", "same": "x"}}
    other.kv = {"n s": {"same": "x"}, "m": {"k": "-"}}
    assert compare({"x": one, "y": other}) == [
        Difference("cluster", "d", {"x": None, "y": "a"}),
        Difference("kv", "m k", {"x": None, "y": "-"}),
        Difference("kv", "n s k", {"x": "1", "y": None}),
    ]


def test_three_servers() -> None:
    views = {"x": view([A]), "y": view([A]), "z": view([])}
    (difference,) = compare(views)
    assert list(difference.said) == ["x", "y", "z"]


@in_loop
async def test_looking_at_real_servers(tmp_path: Path) -> None:
    async with (
        name_server(tmp_path / "x") as (apache_like, first),
        name_server(tmp_path / "y") as (_, second),
        connections() as pool,
    ):
        del apache_like.dispatcher.handlers[RequestCode.GET_ALL_KV_CONFIG]
        admins = {address: NameServerAdmin(pool, address) for address in (first, second)}
        for address in admins:
            await register(pool, address, broker("broker-a"), topics("T1", "T2"))
            await admins[address].put_kv("ns", "k", "v")
        progress: list[tuple[int, int]] = []
        views = {
            address: await look(admin, (), lambda *step: progress.append(step)) for address, admin in admins.items()
        }
        assert views[first].kv == {}
        await complete_kv(admins, views)
        assert compare(views) == []
        assert progress == [(1, 2), (2, 2)] * 2
        await admins[first].delete_kv("ns", "k")
        await admins[second].wipe_write_permission("broker-a")
        views = {address: await look(admin, ["ns"]) for address, admin in admins.items()}
    assert [(found.subject, found.name) for found in compare(views)] == [
        ("topic", "T1"),
        ("topic", "T2"),
        ("kv", "ns k"),
    ]
