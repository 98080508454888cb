"""How a broker enters the route table: the rules of REGISTER_BROKER. Pure, like the table."""

from __future__ import annotations

from typing import NamedTuple

from apogeemq.model.routes import BrokerGroup, QueueSettings
from apogeemq.model.topics import MASTER_ID, PERM_WRITE
from apogeemq.nameserver import changes
from apogeemq.nameserver.changes import Change, MinIdNotice, Outcome
from apogeemq.nameserver.liveness import BrokerKey
from apogeemq.nameserver.route_table import LiveBroker, RouteTable
from apogeemq.protocol.bodies.registration import Registration
from apogeemq.protocol.bodies.registration_index import RegistrationIndex
from apogeemq.protocol.headers.nameserver import RegisterBroker

DEFAULT_TIMEOUT_MS = 120_000

Identity = tuple[object, ...]  # a registration's header fields and version


class Registered(NamedTuple):
    """The answer to a registration; a slave learns its master's addresses."""

    is_accepted: bool
    outcome: Outcome
    master_address: str | None = None
    ha_address: str | None = None


def known_index(table: RouteTable, header: RegisterBroker, identity: Identity) -> RegistrationIndex | None:
    """The index of the broker's last registration, if it was the same but for its body and still stands whole."""
    live = table.live.get((header.clusterName, header.brokerAddr))
    group = table.brokers.get(header.brokerName)
    if (
        live is not None
        and group is not None
        and live.identity == identity
        and live.overrulings_seen == table.overrulings
        and group.zone == header.zone  # a brother in the group may have said otherwise since
        and group.acting_master == (header.enableActingMaster is True)
        and not live.is_restored
    ):
        return live.index
    return None


def is_nothing_new(table: RouteTable, header: RegisterBroker, changed: Registration) -> bool:
    """Of what was read through the index."""
    live = table.live[header.clusterName, header.brokerAddr]
    return not changed.topics and changed.data_version == live.data_version


def refresh(table: RouteTable, header: RegisterBroker, connection: int, now_ms: int) -> Registered:
    """A registration that says nothing new: the broker lives, perhaps on another connection."""
    key = (header.clusterName, header.brokerAddr)
    live = table.live[key]
    live.last_update_ms = now_ms
    if connection > live.connection:
        table.bind(key, live, connection)
    return _accepted(table, header, Outcome())


def register(
    table: RouteTable,
    header: RegisterBroker,
    registration: Registration,
    connection: int,
    now_ms: int,
    *,
    identity: Identity = (),
    index: RegistrationIndex | None = None,
    delete_missing_topics: bool = False,
) -> Registered:
    key = (header.clusterName, header.brokerAddr)
    previous = table.live.get(key)
    if previous is not None and _is_late(previous, registration, connection):
        previous.index = None  # it may have moved on to what is ignored here
        return _accepted(table, header, Outcome())
    outcome = Outcome()
    group = table.brokers.get(header.brokerName)
    if group is not None and _is_conflict(table, header, registration, group):
        if previous is not None:
            outcome.merge(table.remove([key], "conflict", changes.BROKER_LEFT))
        return Registered(True, outcome)
    if (group is None or header.brokerId not in group.addresses) and len(registration.topics) == 1:
        return Registered(False, outcome)  # one topic is an update, and there is nobody to update
    if previous is not None and previous.name != header.brokerName:
        outcome.merge(table.remove([key], f"address taken by {header.brokerName}", changes.BROKER_LEFT))
        previous = None
        group = table.brokers.get(header.brokerName)

    is_first = _join(table, header, group, previous, outcome)
    live = _take_liveness(table, key, header, registration, connection, now_ms)
    group = table.brokers[header.brokerName]
    table.settle_clusters(group)
    _take_filter_servers(table, key, registration, outcome)
    if _speaks_for_group(header, group):
        is_new_version = is_first or previous is None or previous.data_version != registration.data_version
        stands_whole = _take_topics(table, header, group, registration, outcome, is_new_version)
        if delete_missing_topics and not registration.queue_mappings:
            _delete_missing(table, group, registration, outcome)
        if not stands_whole:
            index = None  # what the next body does not change may have to be taken all the same
    live.identity, live.index, live.overrulings_seen = identity, index, table.overrulings
    return _accepted(table, header, outcome)


def _is_late(previous: LiveBroker, registration: Registration, connection: int) -> bool:
    """A word from an older connection, no newer than what is known, must not undo it."""
    return connection < previous.connection and not registration.data_version.is_newer_than(previous.data_version)


def _is_conflict(table: RouteTable, header: RegisterBroker, registration: Registration, group: BrokerGroup) -> bool:
    """Another address holds this id with a higher state version: the newcomer is ignored."""
    holder = group.addresses.get(header.brokerId)
    if holder is None or holder == header.brokerAddr:
        return False
    live = table.live.get((header.clusterName, holder))
    return live is not None and live.data_version.stateVersion > registration.data_version.stateVersion


def _join(
    table: RouteTable,
    header: RegisterBroker,
    group: BrokerGroup | None,
    previous: LiveBroker | None,
    outcome: Outcome,
) -> bool:
    """Put the broker into its group and cluster; True if the group did not have this id before."""
    cluster, name, broker_id, address = header.clusterName, header.brokerName, header.brokerId, header.brokerAddr
    if group is None:
        group = table.brokers[name] = BrokerGroup(cluster, name, {})
    table.clusters.setdefault(cluster, {})[name] = None
    settings_before = (group.acting_master, group.zone)
    group.acting_master, group.zone = header.enableActingMaster is True, header.zone

    lowest_before = min(group.addresses, default=MASTER_ID)
    holder = group.addresses.get(broker_id)
    old_id = next((known for known, held in group.addresses.items() if held == address), None)
    if previous is None or holder not in (None, address):
        _supersede(table, header, outcome)
    if old_id is not None and old_id != broker_id:
        group.addresses.pop(old_id, None)
        table.overrulings += 1  # who has the lowest id now may be another
        change = Change(changes.BROKER_SWITCHED_ID, f"was {old_id}", cluster, name, broker_id, address)
    elif holder != address or previous is None:
        change = Change(changes.BROKER_JOINED, "registered", cluster, name, broker_id, address)
    elif settings_before != (group.acting_master, group.zone):
        change = Change(changes.BROKER_CHANGED, "registered", cluster, name, broker_id, address)
    else:
        change = None
    group.addresses[broker_id] = address
    if change is not None:
        outcome.changes.append(change)
        outcome.topics |= table.topics_of(name)
    if broker_id < lowest_before:
        outcome.notices.append(_newcomer_notice(group, header.haServerAddr))
    return holder is None


def _supersede(table: RouteTable, header: RegisterBroker, outcome: Outcome) -> None:
    """Whoever of this group held the id at another address, or the address under another cluster, is gone."""
    own_key = (header.clusterName, header.brokerAddr)
    gone = [
        (key, live)
        for key, live in table.live.items()
        if live.name == header.brokerName
        and key != own_key
        and (key[1] == header.brokerAddr or live.broker_id == header.brokerId)
    ]
    for key, live in gone:
        table.set_filter_servers(key, live.name, [], outcome)
        table.forget_live(key)
        table.overrulings += 1
        cause = f"replaced by {header.brokerAddr} of {header.clusterName}"
        outcome.changes.append(Change(changes.BROKER_LEFT, cause, key[0], live.name, live.broker_id, key[1]))


def _take_topics(
    table: RouteTable,
    header: RegisterBroker,
    group: BrokerGroup,
    registration: Registration,
    outcome: Outcome,
    is_new_version: bool,
) -> bool:
    """With the known version only topics this broker lacks are taken. True if all now stands as it was said."""
    is_acting = header.brokerId != MASTER_ID and group.acting_master
    kept_bits = ~PERM_WRITE if is_acting else -1
    name, topics, put = group.name, table.topics, table.put_queues
    shapes: dict[tuple[int, int, int, int], QueueSettings] = {}  # a table has thousands of topics and few of these
    stands_whole = True
    for key, config in registration.topics.items():
        topic = config.topicName or key
        shape = (config.readQueueNums, config.writeQueueNums, config.perm & kept_bits, config.topicSysFlag)
        queues = topics.get(topic)
        known = queues.get(name) if queues is not None else None
        if known == shape:
            continue
        if known is None or is_new_version:
            settings = shapes.get(shape)
            if settings is None:
                settings = shapes[shape] = table.shared(QueueSettings(*shape))
            put(topic, group, known, settings, "registered", outcome)
        else:
            stands_whole = False
    for topic, mapping in registration.queue_mappings.items():
        owner = mapping.bname or name
        if table.queue_mappings.get(topic, {}).get(owner) == mapping:
            continue
        if is_new_version:
            table.queue_mappings.setdefault(topic, {})[owner] = mapping
            outcome.topics.add(topic)
        else:
            stands_whole = False
    return stands_whole


def _speaks_for_group(header: RegisterBroker, group: BrokerGroup) -> bool:
    """A master's topics count, or those of a slave of 5.x that has the lowest id."""
    if header.brokerId == MASTER_ID:
        return True
    return header.enableActingMaster is not None and header.brokerId == min(group.addresses)


def _delete_missing(table: RouteTable, group: BrokerGroup, registration: Registration, outcome: Outcome) -> None:
    kept = {config.topicName or key for key, config in registration.topics.items()}
    for topic in table.topics_of(group.name) - kept:
        table.drop_queues(topic, group, "absent from registration", outcome)


def _take_liveness(
    table: RouteTable,
    key: BrokerKey,
    header: RegisterBroker,
    registration: Registration,
    connection: int,
    now_ms: int,
) -> LiveBroker:
    timeout_ms = header.heartbeatTimeoutMillis
    live = LiveBroker(
        header.brokerName,
        header.brokerId,
        registration.data_version,
        now_ms,
        DEFAULT_TIMEOUT_MS if timeout_ms is None else timeout_ms,
        header.haServerAddr,
    )
    table.add_live(key, live, connection)
    return live


def _take_filter_servers(table: RouteTable, key: BrokerKey, registration: Registration, outcome: Outcome) -> None:
    """No word of them (None) leaves those that are known."""
    if registration.filter_servers is not None:
        table.set_filter_servers(key, table.live[key].name, registration.filter_servers, outcome)


def _accepted(table: RouteTable, header: RegisterBroker, outcome: Outcome) -> Registered:
    group = table.brokers.get(header.brokerName)
    if header.brokerId != MASTER_ID and group is not None:
        master = group.addresses.get(MASTER_ID)
        live = table.live.get((header.clusterName, master)) if master is not None else None
        if live is not None:
            return Registered(True, outcome, master, live.ha_address)
    return Registered(True, outcome)


def _newcomer_notice(group: BrokerGroup, ha_address: str | None) -> MinIdNotice:
    """The others learn of the broker that has taken the lowest id."""
    lowest = min(group.addresses)
    others = [address for broker_id, address in group.addresses.items() if broker_id != lowest]
    targets = others or list(group.addresses.values())
    return MinIdNotice(targets, lowest, group.addresses[lowest], None, ha_address)
