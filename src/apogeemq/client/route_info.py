"""From a topic's route to the queues a producer may send to and a consumer may read. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from apogeemq.errors import NoRoute, RouteCause
from apogeemq.model.queues import MessageQueue
from apogeemq.model.routes import QueueSettings, TopicRoute
from apogeemq.model.topics import MASTER_ID, PERM_READ, is_writable


class PublishInfo(msgspec.Struct, frozen=True):
    """The queues of a topic in the order a producer goes round them. Without any, the topic cannot be sent to."""

    queues: tuple[MessageQueue, ...] = ()
    is_ordered: bool = False


def publish_info(topic: str, route: TopicRoute) -> PublishInfo:
    """An ordered topic has the queues its configuration names; any other those of writable brokers with a master."""
    if route.order_conf:
        return PublishInfo(_ordered_queues(topic, route.order_conf), is_ordered=True)
    masters = {group.name for group in route.brokers if MASTER_ID in group.addresses}
    return PublishInfo(
        tuple(
            MessageQueue(name, queue_id, topic)
            for name in sorted(route.queues)
            if is_writable(route.queues[name].perm) and name in masters
            for queue_id in range(route.queues[name].write_queues)
        )
    )


def nowhere_to_send(topic: str, route: TopicRoute) -> NoRoute:
    """Why `publish_info` has found no queue."""
    writable = [name for name, settings in route.queues.items() if is_writable(settings.perm)]
    if route.queues and not writable:
        why, cause = "its brokers may not be written to", RouteCause.NOT_WRITABLE
    elif writable:
        why, cause = f"no master of {', '.join(sorted(writable))} is registered", RouteCause.NO_MASTER
    else:
        why, cause = "no broker serves it", RouteCause.NO_BROKER
    return NoRoute(f"no queue of topic {topic} can be sent to: {why}", cause)


def _ordered_queues(topic: str, order_conf: str) -> tuple[MessageQueue, ...]:
    """`broker-a:4;broker-b:2`; what does not read so is passed over."""
    queues: list[MessageQueue] = []
    for part in order_conf.split(";"):
        name, _, count = part.partition(":")
        if name and count.isdigit():
            queues += (MessageQueue(name, queue_id, topic) for queue_id in range(int(count)))
    return tuple(queues)


def readable_queues(topic: str, route: TopicRoute) -> tuple[MessageQueue, ...]:
    """Of masters and slaves alike."""
    return tuple(
        MessageQueue(name, queue_id, topic)
        for name in sorted(route.queues)
        if route.queues[name].perm & PERM_READ
        for queue_id in range(route.queues[name].read_queues)
    )


def for_a_new_topic(route: TopicRoute, default_queue_nums: int) -> TopicRoute:
    """The default topic's route as that of a topic that is going to be made by the first message to it."""
    queues = {}
    for name, settings in route.queues.items():
        count = min(default_queue_nums, settings.read_queues)
        queues[name] = QueueSettings(count, count, settings.perm, settings.sys_flag)
    return msgspec.structs.replace(route, queues=queues)


def stand_in(addresses: Mapping[int, str], broker_id: int, *, only_this: bool = False) -> str | None:
    """Where a broker of a group is reached. A slave that is gone is stood in for by the next one, then by any."""
    found = addresses.get(broker_id)
    if found is None and broker_id != MASTER_ID:
        found = addresses.get(broker_id + 1)
    if found is None and not only_this and addresses:
        found = addresses[min(addresses)]
    return found


def is_same_route(one: TopicRoute | None, other: TopicRoute | None) -> bool:
    """Whether nothing that matters to a client differs; the order of brokers does not."""
    if one is None or other is None:
        return one is other
    return (
        one.queues == other.queues
        and one.order_conf == other.order_conf
        and one.queue_mappings == other.queue_mappings
        and sorted((group.name, sorted(group.addresses.items())) for group in one.brokers)
        == sorted((group.name, sorted(group.addresses.items())) for group in other.brokers)
    )
