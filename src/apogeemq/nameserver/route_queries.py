"""Questions to the route table. Pure."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

from apogeemq.model.routes import BrokerGroup, TopicRoute
from apogeemq.model.topics import FLAG_UNIT, FLAG_UNIT_SUB, MASTER_ID, SYNC_BROKER_MEMBER_PREFIX, is_writable
from apogeemq.nameserver.route_table import RouteTable


def find_route(table: RouteTable, topic: str, *, support_acting_master: bool) -> TopicRoute | None:
    """Who serves the topic; None when nobody does. Brokers in order of their names."""
    queues = table.topics.get(topic)
    if not queues:
        return None
    groups = [table.brokers[name] for name in sorted(queues)]
    if support_acting_master and not topic.startswith(SYNC_BROKER_MEMBER_PREFIX):
        groups = [_with_acting_master(group, queues[group.name].perm) for group in groups]
    return TopicRoute(dict(queues), groups, _filter_servers_of(table, queues), table.queue_mappings.get(topic))


def _with_acting_master(group: BrokerGroup, perm: int) -> BrokerGroup:
    """A group without master shows its lowest slave as master, for reading."""
    if MASTER_ID in group.addresses or not group.acting_master or is_writable(perm):
        return group
    addresses = dict(group.addresses)
    addresses[MASTER_ID] = addresses.pop(min(addresses))
    return BrokerGroup(group.cluster, group.name, addresses, group.zone, group.acting_master)


def _filter_servers_of(table: RouteTable, names: Container[str]) -> dict[str, list[str]]:
    return {key[1]: servers for key, servers in table.filter_servers.items() if table.live[key].name in names}


def within_zone(route: TopicRoute, zone: str) -> TopicRoute:
    """Only brokers of the zone, and groups without a master, which are read wherever they are."""
    kept = [
        group
        for group in route.brokers
        if MASTER_ID not in group.addresses or (group.zone or "").lower() == zone.lower()
    ]
    names = {group.name for group in kept}
    dropped = {address for group in route.brokers if group.name not in names for address in group.addresses.values()}
    return TopicRoute(
        {name: queues for name, queues in route.queues.items() if name in names},
        kept,
        {address: servers for address, servers in route.filter_servers.items() if address not in dropped},
        route.queue_mappings,
        route.order_conf,
    )


def topics_of_cluster(table: RouteTable, cluster: str) -> list[str]:
    """In Apache's order: broker by broker, so that a topic on several brokers comes once, where it is met first."""
    names = table.clusters.get(cluster, {})
    found = {topic: None for name in names for topic, queues in table.topics.items() if name in queues}
    return list(found)


def system_topics(table: RouteTable) -> list[str]:
    """Every cluster and every broker name is also a topic."""
    found: dict[str, None] = {}
    for cluster, names in table.clusters.items():
        found[cluster] = None
        found.update(names)
    return list(found)


def some_broker_address(table: RouteTable) -> str | None:
    return next((address for group in table.brokers.values() for address in group.addresses.values()), None)


def unit_topics(table: RouteTable) -> list[str]:
    return list(_topics_by_flag(table, lambda flag: flag & FLAG_UNIT != 0))


def unit_sub_topics(table: RouteTable) -> list[str]:
    return list(_topics_by_flag(table, lambda flag: flag & FLAG_UNIT_SUB != 0))


def unit_sub_topics_without_unit(table: RouteTable) -> list[str]:
    return list(_topics_by_flag(table, lambda flag: flag & FLAG_UNIT_SUB != 0 and flag & FLAG_UNIT == 0))


def _topics_by_flag(table: RouteTable, is_wanted: Callable[[int], bool]) -> Iterator[str]:
    """The flag of a topic is that of its first broker, as in Apache."""
    for topic, queues in table.topics.items():
        if is_wanted(next(iter(queues.values())).sys_flag):
            yield topic


def restored_names(table: RouteTable) -> set[str]:
    """Broker names with a broker that is only known from the snapshot."""
    return {live.name for live in table.live.values() if live.is_restored}
