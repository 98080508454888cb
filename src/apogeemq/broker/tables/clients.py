"""Who is connected: producers and consumers by group, and what each consumer group wants.

One connection serves all groups of a client. A client is known by its connection alone; its id is what it says.
Nothing is kept on disk. No connection is touched here: methods return whom to tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from apogeemq.model.subscriptions import BROADCASTING, SubscriptionData
from apogeemq.protocol.bodies.heartbeat import ConsumerData, Heartbeat


class Numbered(Protocol):
    """All the tables know of a connection: its number, which no other ever has."""

    @property
    def number(self) -> int: ...


ChannelT = TypeVar("ChannelT", bound=Numbered)


class ClientInfo(NamedTuple, Generic[ChannelT]):
    """A client as its last heartbeat described it."""

    channel: ChannelT
    client_id: str
    language: str
    version: int
    last_seen_ms: int


class IdsChanged(NamedTuple, Generic[ChannelT]):
    """The members of a consumer group, or its topics, are others now; these connections must be told."""

    group: str
    channels: list[ChannelT]


class Registered(NamedTuple, Generic[ChannelT]):
    """`needs_subscriptions`: the client must send its subscriptions with the next heartbeat."""

    change: IdsChanged[ChannelT] | None
    needs_subscriptions: bool


class Expired(NamedTuple, Generic[ChannelT]):
    """`abandoned` are connections no group of which is left."""

    changes: list[IdsChanged[ChannelT]]
    abandoned: list[ChannelT]


class ClientLimits(NamedTuple):
    max_clients: int = 100_000
    max_groups_per_client: int = 2_000
    max_subscriptions_per_group: int = 20_000
    max_subscriptions: int = 1_000_000  # of all groups together
    max_name_length: int = 1_024  # of client ids and producer groups; those of consumer groups have a rule


class ConsumerGroup(Generic[ChannelT]):
    """A consumer group that has clients, by the numbers of their connections."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.consume_type: str | None = None
        self.message_model: str | None = None
        self.consume_from_where: str | None = None
        self.is_notified = True
        self.fingerprint: int | None = None
        self.clients: dict[int, ClientInfo[ChannelT]] = {}
        self.subscriptions: dict[str, SubscriptionData] = {}

    @property
    def is_broadcasting(self) -> bool:
        return self.message_model == BROADCASTING

    @property
    def client_ids(self) -> list[str]:
        """A client that has connected anew counts once, even while its old connection is not known to be dead."""
        return list(dict.fromkeys(client.client_id for client in self.clients.values()))

    def find(self, client_id: str) -> ClientInfo[ChannelT] | None:
        """By id; the newest connection if there are several."""
        numbers = [number for number, client in self.clients.items() if client.client_id == client_id]
        return self.clients[max(numbers)] if numbers else None

    def change(self) -> IdsChanged[ChannelT] | None:
        """None where nobody is told: members of a broadcasting group do not share queues."""
        if self.is_broadcasting or not self.is_notified:
            return None
        return IdsChanged(self.name, [client.channel for client in self.clients.values()])

    def take_client(self, data: ConsumerData, client: ClientInfo[ChannelT]) -> bool:
        """Says whether the list of client ids is another one."""
        self.consume_type = data.consume_type
        self.message_model = data.message_model
        self.consume_from_where = data.consume_from_where
        before = self.clients.get(client.channel.number)
        self.clients[client.channel.number] = client
        return before is None or before.client_id != client.client_id

    def take_subscriptions(self, given: Sequence[SubscriptionData]) -> bool:
        """Says whether topics came or went. A subscription that is not newer than the known one changes nothing."""
        before = self.subscriptions
        after: dict[str, SubscriptionData] = {}
        for subscription in given:
            known = after.get(subscription.topic) or before.get(subscription.topic)
            if known is None or subscription.sub_version > known.sub_version:
                known = subscription
            after[subscription.topic] = known
        self.subscriptions = after
        return before.keys() != after.keys()


class _Membership:
    """The groups one connection has been heard of in."""

    __slots__ = ("consumer_groups", "producer_groups")

    def __init__(self) -> None:
        self.producer_groups: set[str] = set()
        self.consumer_groups: set[str] = set()


class ClientTable(Generic[ChannelT]):
    def __init__(self, limits: ClientLimits | None = None) -> None:
        self.producers: dict[str, dict[int, ClientInfo[ChannelT]]] = {}
        self.consumers: dict[str, ConsumerGroup[ChannelT]] = {}
        self.subscription_count = 0
        self._limits = limits or ClientLimits()
        self._memberships: dict[int, _Membership] = {}

    # -- questions -------------------------------------------------------------------------------------------

    @property
    def client_count(self) -> int:
        return len(self._memberships)

    def consumer_group(self, group: str) -> ConsumerGroup[ChannelT] | None:
        """None while no client of the group is connected."""
        return self.consumers.get(group)

    def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        consumers = self.consumers.get(group)
        return consumers.subscriptions.get(topic) if consumers is not None else None

    def find_consumer(self, group: str, client_id: str) -> ClientInfo[ChannelT] | None:
        consumers = self.consumers.get(group)
        return consumers.find(client_id) if consumers is not None else None

    def groups_consuming(self, topic: str) -> set[str]:
        """Connected groups that subscribe to the topic."""
        return {name for name, group in self.consumers.items() if topic in group.subscriptions}

    def limit_problem(self, number: int, heartbeat: Heartbeat) -> str | None:
        """Why a heartbeat over this connection is too much; None if it is not."""
        limits = self._limits
        known = self._memberships.get(number)
        if known is None and self.client_count >= limits.max_clients:
            return f"there are {limits.max_clients} clients already"
        if any(len(name) > limits.max_name_length for name in (heartbeat.client_id, *heartbeat.producer_groups)):
            return f"a name is longer than {limits.max_name_length} characters"
        producing, consuming = set(heartbeat.producer_groups), {data.group for data in heartbeat.consumers}
        if known is not None:
            producing |= known.producer_groups
            consuming |= known.consumer_groups
        if len(producing) + len(consuming) > limits.max_groups_per_client:
            return f"more than {limits.max_groups_per_client} groups over one connection"
        counts = [len(data.subscriptions) for data in heartbeat.consumers]
        if any(count > limits.max_subscriptions_per_group for count in counts):
            return f"a group has more than {limits.max_subscriptions_per_group} subscriptions"
        if self.subscription_count + sum(counts) > limits.max_subscriptions + self._known_count(heartbeat.consumers):
            return f"there are {limits.max_subscriptions} subscriptions already"
        return None

    def _known_count(self, consumers: Iterable[ConsumerData]) -> int:
        """What the new subscriptions take the place of."""
        names = {data.group for data in consumers}
        return sum(len(self.consumers[name].subscriptions) for name in names if name in self.consumers)

    # -- heartbeats ------------------------------------------------------------------------------------------

    def register_producer(self, group: str, client: ClientInfo[ChannelT]) -> None:
        self.producers.setdefault(group, {})[client.channel.number] = client
        self._membership(client).producer_groups.add(group)

    def register_consumer(
        self,
        data: ConsumerData,
        client: ClientInfo[ChannelT],
        *,
        is_notified: bool = True,
        fingerprint: int = 0,
        keeps_subscriptions: bool = False,
    ) -> Registered[ChannelT]:
        """`keeps_subscriptions`: the client left them out, because they are what they were."""
        group = self.consumers.get(data.group)
        if group is None:
            group = self.consumers[data.group] = ConsumerGroup(data.group)
        self._membership(client).consumer_groups.add(data.group)
        is_other_fingerprint = group.fingerprint not in (None, fingerprint)
        group.fingerprint = fingerprint
        group.is_notified = is_notified
        is_changed = group.take_client(data, client)
        if not keeps_subscriptions:
            self.subscription_count -= len(group.subscriptions)
            is_changed = group.take_subscriptions(data.subscriptions) or is_changed
            self.subscription_count += len(group.subscriptions)
        return Registered(
            group.change() if is_changed else None,
            # Beyond Apache: a group that was gone in between has none, whatever its clients think.
            needs_subscriptions=is_other_fingerprint or (keeps_subscriptions and not group.subscriptions),
        )

    def _membership(self, client: ClientInfo[ChannelT]) -> _Membership:
        number = client.channel.number
        found = self._memberships.get(number)
        if found is None:
            found = self._memberships[number] = _Membership()
        return found

    # -- leaving ---------------------------------------------------------------------------------------------

    def unregister_producer(self, group: str, number: int) -> None:
        self._remove_producer(group, number)
        self._forget_if_alone(number)

    def unregister_consumer(self, group: str, number: int) -> IdsChanged[ChannelT] | None:
        change = self._remove_consumer(group, number)
        self._forget_if_alone(number)
        return change

    def channel_closed(self, number: int) -> list[IdsChanged[ChannelT]]:
        membership = self._memberships.get(number)
        if membership is None:
            return []
        for group in tuple(membership.producer_groups):
            self._remove_producer(group, number)
        changes = [self._remove_consumer(group, number) for group in tuple(membership.consumer_groups)]
        self._forget_if_alone(number)
        return [change for change in changes if change is not None]

    def expire(self, now_ms: int, timeout_ms: int) -> Expired[ChannelT]:
        """Forget what no heartbeat has named for longer than that."""
        oldest_ms = now_ms - timeout_ms
        channels: dict[int, ChannelT] = {}
        for producer_group, producers in tuple(self.producers.items()):
            for client in [client for client in producers.values() if client.last_seen_ms < oldest_ms]:
                channels[client.channel.number] = client.channel
                self._remove_producer(producer_group, client.channel.number)
        changes: dict[str, IdsChanged[ChannelT] | None] = {}
        for name, group in tuple(self.consumers.items()):
            for client in [client for client in group.clients.values() if client.last_seen_ms < oldest_ms]:
                channels[client.channel.number] = client.channel
                changes[name] = self._remove_consumer(name, client.channel.number)
        for number in channels:
            self._forget_if_alone(number)
        abandoned = [channel for number, channel in channels.items() if number not in self._memberships]
        return Expired([change for change in changes.values() if change is not None], abandoned)

    def _remove_producer(self, group: str, number: int) -> None:
        producers = self.producers.get(group)
        if producers is not None and producers.pop(number, None) is not None:
            self._memberships[number].producer_groups.discard(group)
            if not producers:
                del self.producers[group]

    def _remove_consumer(self, name: str, number: int) -> IdsChanged[ChannelT] | None:
        group = self.consumers.get(name)
        if group is None or group.clients.pop(number, None) is None:
            return None
        self._memberships[number].consumer_groups.discard(name)
        if not group.clients:
            self.subscription_count -= len(group.subscriptions)
            del self.consumers[name]
            return None
        return group.change()

    def _forget_if_alone(self, number: int) -> None:
        membership = self._memberships.get(number)
        if membership is not None and not membership.producer_groups and not membership.consumer_groups:
            del self._memberships[number]
