"""From a route to the queues a client uses."""

from __future__ import annotations

import msgspec
import pytest

from apogeemq.client.route_info import (
    PublishInfo,
    for_a_new_topic,
    is_same_route,
    nowhere_to_send,
    publish_info,
    readable_queues,
    stand_in,
)
from apogeemq.errors import RouteCause
from apogeemq.model.queues import MessageQueue
from apogeemq.model.routes import BrokerGroup, QueueMapping, QueueSettings, TopicRoute


def group(name: str, *broker_ids: int) -> BrokerGroup:
    return BrokerGroup("c", name, {broker_id: f"{name}.{broker_id}:10911" for broker_id in broker_ids})


def route(queues: dict[str, tuple[int, int, int]], *groups: BrokerGroup, order_conf: str | None = None) -> TopicRoute:
    """Queues as broker name to (read, write, permission)."""
    settings = {name: QueueSettings(read, write, perm, 0) for name, (read, write, perm) in queues.items()}
    return TopicRoute(settings, list(groups), {}, None, order_conf)


def names(queues: tuple[MessageQueue, ...]) -> list[str]:
    assert all(queue.topic == "T" for queue in queues)
    return [f"{queue.broker_name}:{queue.queue_id}" for queue in queues]


TWO = route({"b": (3, 1, 6), "a": (1, 2, 6)}, group("b", 0, 1), group("a", 0))


def test_producers_go_round_the_writable_queues_in_the_order_of_brokers() -> None:
    info = publish_info("T", TWO)
    assert names(info.queues) == ["a:0", "a:1", "b:0"]
    assert not info.is_ordered


@pytest.mark.parametrize(
    ("perm", "can_write", "can_read"), [(6, True, True), (2, True, False), (4, False, True), (0, False, False)]
)
def test_permissions(perm: int, can_write: bool, can_read: bool) -> None:
    given = route({"a": (1, 1, perm)}, group("a", 0))
    assert bool(publish_info("T", given).queues) is can_write
    assert bool(readable_queues("T", given)) is can_read


def test_without_a_master_nothing_can_be_sent_but_all_can_be_read() -> None:
    given = route({"a": (2, 2, 6), "gone": (1, 1, 6)}, group("a", 1, 2))
    assert publish_info("T", given) == PublishInfo()
    assert names(readable_queues("T", given)) == ["a:0", "a:1", "gone:0"]


def test_consumers_read_by_the_number_of_read_queues() -> None:
    assert names(readable_queues("T", TWO)) == ["a:0", "b:0", "b:1", "b:2"]


@pytest.mark.parametrize(
    ("order_conf", "expected"),
    [
        ("b:2;a:1", ["b:0", "b:1", "a:0"]),
        ("b:1;", ["b:0"]),
        ("nonsense;b:x;:3;a:1", ["a:0"]),
        ("a:0", []),
    ],
)
def test_an_ordered_topic_has_the_queues_that_were_configured(order_conf: str, expected: list[str]) -> None:
    info = publish_info("T", msgspec.structs.replace(TWO, order_conf=order_conf))
    assert names(info.queues) == expected
    assert info.is_ordered


def test_an_empty_order_configuration_is_none() -> None:
    assert publish_info("T", msgspec.structs.replace(TWO, order_conf="")) == publish_info("T", TWO)


@pytest.mark.parametrize(("wanted", "expected"), [(4, 3), (2, 2), (16, 3)])
def test_a_new_topic_has_no_more_queues_than_asked_for_nor_than_the_default_topic_reads(
    wanted: int, expected: int
) -> None:
    made = for_a_new_topic(route({"a": (3, 8, 7)}, group("a", 0)), wanted)
    assert made.queues == {"a": QueueSettings(expected, expected, 7, 0)}
    assert made.brokers == [group("a", 0)]


@pytest.mark.parametrize(
    ("present", "wanted", "only_this", "found"),
    [
        ((0, 1, 2), 0, True, 0),
        ((0, 1, 2), 2, False, 2),
        ((0, 2), 1, False, 2),  # the next slave
        ((0, 2), 1, True, 2),
        ((0, 1), 3, False, 0),  # then any
        ((0, 1), 3, True, None),
        ((1, 2), 0, False, 1),
        ((1, 2), 0, True, None),
        ((), 0, False, None),
    ],
)
def test_who_stands_in_for_a_broker(present: tuple[int, ...], wanted: int, only_this: bool, found: int | None) -> None:
    expected = None if found is None else f"a.{found}:10911"
    assert stand_in(group("a", *present).addresses, wanted, only_this=only_this) == expected


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        (route({}), RouteCause.NO_BROKER),
        (route({"a": (1, 1, 4)}, group("a", 0)), RouteCause.NOT_WRITABLE),
        (route({"a": (1, 1, 6), "b": (1, 1, 4)}, group("a", 1), group("b", 0)), RouteCause.NO_MASTER),
    ],
)
def test_why_there_is_no_queue_to_send_to(given: TopicRoute, cause: RouteCause) -> None:
    assert not publish_info("T", given).queues
    assert nowhere_to_send("T", given).cause is cause


def test_the_order_of_brokers_makes_no_other_route() -> None:
    turned = msgspec.structs.replace(TWO, brokers=TWO.brokers[::-1], filter_servers={"a": ["f"]})
    assert is_same_route(TWO, turned)
    assert is_same_route(None, None)


@pytest.mark.parametrize(
    "other",
    [
        None,
        msgspec.structs.replace(TWO, order_conf="a:1"),
        msgspec.structs.replace(TWO, queue_mappings={"a": QueueMapping("a")}),
        msgspec.structs.replace(TWO, brokers=[group("a", 0), group("b", 0)]),
        msgspec.structs.replace(TWO, queues={"a": QueueSettings(1, 1, 6, 0)}),
    ],
)
def test_whatever_matters_makes_another_route(other: TopicRoute | None) -> None:
    assert not is_same_route(TWO, other)
    assert not is_same_route(other, TWO)
