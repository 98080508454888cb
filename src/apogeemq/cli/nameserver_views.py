"""What `apogee namesrv routes`, `journal` and `diff` do and show."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from apogeemq.admin.agreement import Difference, View, compare, complete_kv, look
from apogeemq.admin.nameserver import NameServerAdmin
from apogeemq.cli.connecting import connections
from apogeemq.errors import ApogeeError
from apogeemq.model.routes import TopicRoute
from apogeemq.model.topics import perm_text
from apogeemq.protocol.bodies.routes import topic_route
from apogeemq.transport.addresses import format_address, parse_address

AGREED, DIFFERENT, NOT_ASKED = 0, 1, 2

_FOLLOW_SECONDS = 1.0
_PROGRESS_FROM_TOPICS = 200  # below this the answer is there before a bar could be read


# -- routes --------------------------------------------------------------------------------------------------


async def show_routes(address: str, topics: Sequence[str], *, as_json: bool, tls_config: Path | None) -> int:
    """0, or 1 when a topic that was asked for has no route."""
    async with connections(tls_config) as pool:
        admin = NameServerAdmin(pool, _spelled(address))
        routes = await admin.routes(topics or sorted(await admin.topics()))
    if as_json:
        _print_json({topic: topic_route(route) if route else None for topic, route in routes.items()})
    else:
        Console().print(route_table({topic: route for topic, route in routes.items() if route is not None}))
    missing = [topic for topic in topics if routes[topic] is None]
    for topic in missing:
        print(f"no route for {topic}", file=sys.stderr)
    return 1 if missing else 0


def route_table(routes: Mapping[str, TopicRoute]) -> Table:
    table = Table("Topic", "Broker", "Cluster", "Read", "Write", "Perm", "Addresses")
    for topic, route in routes.items():
        groups = {group.name: group for group in route.brokers}
        for position, (name, queues) in enumerate(sorted(route.queues.items())):
            group = groups.get(name)
            addresses = sorted(group.addresses.items()) if group is not None else []
            cells = [
                topic if position == 0 else "",
                name,
                group.cluster if group is not None else "",
                str(queues.read_queues),
                str(queues.write_queues),
                perm_text(queues.perm),
                "  ".join(f"{number}={address}" for number, address in addresses),
            ]
            table.add_row(*map(Text, cells), end_section=position == len(route.queues) - 1)
    return table


# -- journal -------------------------------------------------------------------------------------------------


async def show_journal(address: str, from_sequence: int, *, follow: bool, tls_config: Path | None) -> None:
    """Print the lines as they are; with `follow`, wait for more until interrupted."""
    async with connections(tls_config) as pool:
        admin = NameServerAdmin(pool, _spelled(address))
        while True:
            page = await admin.read_journal(from_sequence)
            for line in page.lines:
                print(line.decode(errors="replace"), flush=follow)
            is_all = page.next_sequence > page.last_sequence
            from_sequence = page.next_sequence
            if is_all and not follow:
                return
            if is_all:
                await asyncio.sleep(_FOLLOW_SECONDS)


# -- diff ----------------------------------------------------------------------------------------------------


async def show_differences(
    addresses: Sequence[str], namespaces: Sequence[str], *, as_json: bool, tls_config: Path | None
) -> int:
    """The exit status: 0 all agree, 1 there are differences, 2 a name server could not be asked."""
    async with connections(tls_config) as pool:
        admins = {address: NameServerAdmin(pool, address) for address in dict.fromkeys(map(_spelled, addresses))}
        views, failures = await _look_at_all(admins, namespaces)
        try:
            await complete_kv(admins, views)
        except ApogeeError as error:
            failures["key-value configuration"] = str(error)
    differences = compare(views)
    if as_json:
        _print_json({"differences": differences, "failures": failures})
    else:
        _print_differences(differences, views)
    for address, reason in failures.items():
        print(f"apogee: {address} could not be asked: {reason}", file=sys.stderr)
    if failures:
        return NOT_ASKED
    return DIFFERENT if differences else AGREED


async def _look_at_all(
    admins: Mapping[str, NameServerAdmin], namespaces: Sequence[str]
) -> tuple[dict[str, View], dict[str, str]]:
    views: dict[str, View] = {}
    failures: dict[str, str] = {}
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("topics"))
    progress = Progress(*columns, console=console, transient=True)
    bars: dict[str, TaskID] = {}

    def show(address: str, done: int, total: int) -> None:
        if total >= _PROGRESS_FROM_TOPICS:
            bar = bars.get(address)
            if bar is None:
                bar = bars[address] = progress.add_task(address, total=total)
            progress.update(bar, completed=done)

    async def ask(address: str, admin: NameServerAdmin) -> None:
        try:
            views[address] = await look(admin, namespaces, lambda done, total: show(address, done, total))
        except ApogeeError as error:
            failures[address] = str(error)

    with progress if console.is_terminal else nullcontext():
        await asyncio.gather(*(ask(address, admin) for address, admin in admins.items()))
    return {address: views[address] for address in admins if address in views}, failures


def _print_differences(differences: Sequence[Difference], views: Mapping[str, View]) -> None:
    console = Console()
    if not differences:
        if len(views) > 1:
            topics = len({topic for view in views.values() for topic in view.routes})
            brokers = len({name for view in views.values() for name in view.brokers})
            console.print(f"{len(views)} name servers agree on {brokers} brokers and {topics} topics.")
        return
    title = "1 difference" if len(differences) == 1 else f"{len(differences)} differences"
    table = Table("What", "Name", *views, title=title, show_lines=True)
    for difference in differences:
        name = f"{difference.name}\n{difference.note}" if difference.note else difference.name
        said = (difference.said[address] for address in views)
        table.add_row(difference.subject, Text(name), *(Text("—" if text is None else text) for text in said))
    console.print(table)


def _spelled(address: str) -> str:
    """One spelling for one address; ConfigError when it is none."""
    return format_address(*parse_address(address))


def _print_json(value: Any) -> None:
    plain = msgspec.to_builtins(value, str_keys=True)  # broker ids are numbers, keys of JSON are not
    print(msgspec.json.format(msgspec.json.encode(plain, order="sorted"), indent=2).decode())
