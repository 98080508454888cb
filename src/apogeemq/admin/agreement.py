"""Whether several name servers say the same: brokers, topics, routes and key-value configuration.

`look` asks one name server everything; `compare` is pure and finds what differs. Name servers do not talk to each
other, so a difference is either a moment's delay or a broker that does not reach one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal

import msgspec

from apogeemq.admin.nameserver import NameServerAdmin, Progress
from apogeemq.model.routes import BrokerGroup, TopicRoute
from apogeemq.model.topics import ORDER_TOPIC_NAMESPACE, perm_text

Subject = Literal["broker", "cluster", "topic", "kv"]


class View(msgspec.Struct):
    """All that one name server knows."""

    brokers: dict[str, BrokerGroup] = {}
    clusters: dict[str, list[str]] = {}
    routes: dict[str, TopicRoute] = {}
    kv: dict[str, dict[str, str]] = {}


class Difference(msgspec.Struct, frozen=True):
    """One thing of which name servers say different things: what each says, by its address; None, nothing."""

    subject: Subject
    name: str
    said: dict[str, str | None]
    note: str = ""


async def look(
    admin: NameServerAdmin, namespaces: Iterable[str] = (), on_progress: Progress = lambda done, total: None
) -> View:
    """Ask one name server everything; its errors are raised."""
    info = await admin.cluster_info()
    routes = await admin.routes(await admin.topics(), on_progress)
    known = {topic: route for topic, route in routes.items() if route is not None}
    return View(info.brokers, info.clusters, known, await admin.all_kv(namespaces))


async def complete_kv(admins: Mapping[str, NameServerAdmin], views: Mapping[str, View]) -> None:
    """Ask every name server for the namespaces the others have: not all can tell which they have themselves."""
    namespaces = {ORDER_TOPIC_NAMESPACE}.union(*(view.kv for view in views.values()))
    for address, view in views.items():
        for namespace in sorted(namespaces - view.kv.keys()):
            table = await admins[address].list_kv(namespace)
            if table is not None:
                view.kv[namespace] = table


def compare(views: Mapping[str, View]) -> list[Difference]:
    """What differs, brokers first. A broker that some name server lacks is said once, not for each of its topics."""
    differences = list(_brokers(views))
    lacking = {name for name in _all(view.brokers for view in views.values()) if _is_lacked(name, views)}
    differences += _clusters(views, lacking)
    differences += _topics(views, lacking)
    differences += _kv(views)
    return differences


def _is_lacked(broker: str, views: Mapping[str, View]) -> bool:
    return any(broker not in view.brokers for view in views.values())


def _all(tables: Iterable[Iterable[str]]) -> list[str]:
    return sorted({name for table in tables for name in table})


def _differing(
    subject: Subject, names: Iterable[str], views: Mapping[str, View], text: Callable[[View, str], str | None]
) -> Iterator[Difference]:
    for name in names:
        said = {address: text(view, name) for address, view in views.items()}
        if len(set(said.values())) > 1:
            yield Difference(subject, name, said)


def _brokers(views: Mapping[str, View]) -> Iterator[Difference]:
    names = _all(view.brokers for view in views.values())
    for difference in _differing("broker", names, views, lambda view, name: _group_text(view.brokers.get(name))):
        topics = {
            topic for view in views.values() for topic, route in view.routes.items() if difference.name in route.queues
        }
        is_lacked = _is_lacked(difference.name, views)
        note = f"and the {len(topics)} topics it serves" if is_lacked and topics else ""
        yield msgspec.structs.replace(difference, note=note)


def _clusters(views: Mapping[str, View], lacking: set[str]) -> Iterator[Difference]:
    def text(view: View, cluster: str) -> str | None:
        return ", ".join(sorted(set(view.clusters.get(cluster, ())) - lacking)) or None

    yield from _differing("cluster", _all(view.clusters for view in views.values()), views, text)


def _topics(views: Mapping[str, View], lacking: set[str]) -> Iterator[Difference]:
    def text(view: View, topic: str) -> str | None:
        route = view.routes.get(topic)
        return _route_text(route, view, lacking) if route is not None else None

    yield from _differing("topic", _all(view.routes for view in views.values()), views, text)


def _kv(views: Mapping[str, View]) -> Iterator[Difference]:
    for namespace in _all(view.kv for view in views.values()):
        tables = {address: view.kv.get(namespace, {}) for address, view in views.items()}
        for key in _all(tables.values()):
            said = {address: table.get(key) for address, table in tables.items()}
            if len(set(said.values())) > 1:
                yield Difference("kv", f"{namespace} {key}", said)


def _group_text(group: BrokerGroup | None) -> str | None:
    if group is None:
        return None
    addresses = ", ".join(f"{number}={address}" for number, address in sorted(group.addresses.items()))
    zone = f", zone {group.zone}" if group.zone else ""
    return f"{group.cluster}: {addresses}{zone}{', acting master' if group.acting_master else ''}"


def _route_text(route: TopicRoute, view: View, lacking: set[str]) -> str | None:
    """Queues by broker, and the rest where there is any; broker groups only where they are not as listed."""
    parts = [
        f"{broker} {queues.read_queues}r {queues.write_queues}w {perm_text(queues.perm)}"
        + (f" flag {queues.sys_flag}" if queues.sys_flag else "")
        for broker, queues in sorted(route.queues.items())
        if broker not in lacking
    ]
    for group in sorted(route.brokers, key=lambda group: group.name):
        if group.name not in lacking and _group_text(group) != _group_text(view.brokers.get(group.name)):
            parts.append(f"{group.name} as {_group_text(group)}")
    if route.order_conf is not None:
        parts.append(f"order {route.order_conf}")
    for address, servers in sorted(route.filter_servers.items()):
        if servers:
            parts.append(f"filter {address} {', '.join(sorted(servers))}")
    for broker, mapping in sorted((route.queue_mappings or {}).items()):
        if broker not in lacking:
            parts.append(f"{broker} maps {msgspec.json.encode(mapping, order='deterministic').decode()}")
    return "; ".join(parts) or None
