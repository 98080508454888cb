"""Who is connected, who must be told, and what is forgotten when."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apogeemq.broker.tables.clients import ClientInfo, ClientLimits, ClientTable
from apogeemq.model.subscriptions import SubscriptionData
from apogeemq.protocol.bodies.heartbeat import ConsumerData, Heartbeat

TIMEOUT_MS = 120_000


class Line(NamedTuple):
    """A connection, as far as the table knows."""

    number: int


ONE, TWO, THREE = Line(1), Line(2), Line(3)
Table = ClientTable[Line]


def client(line: Line, client_id: str = "", now_ms: int = 0) -> ClientInfo[Line]:
    return ClientInfo(line, client_id or f"client-{line.number}", "JAVA", 513, now_ms)


def subscription(topic: str, version: int = 1, expression: str = "*") -> SubscriptionData:
    return SubscriptionData(topic=topic, sub_version=version, sub_string=expression)


def consumer(group: str = "G", *topics: str | SubscriptionData, model: str | None = "CLUSTERING") -> ConsumerData:
    subscriptions = [subscription(topic) if isinstance(topic, str) else topic for topic in topics]
    return ConsumerData(group, "CONSUME_PASSIVELY", model, "CONSUME_FROM_LAST_OFFSET", subscriptions, False)


def join(table: Table, line: Line, data: ConsumerData, client_id: str = "", now_ms: int = 0) -> set[Line] | None:
    """Who is told; None when nobody is."""
    change = table.register_consumer(data, client(line, client_id, now_ms)).change
    return set(change.channels) if change is not None else None


def topics_of(table: Table, group: str = "G") -> dict[str, str]:
    found = table.consumer_group(group)
    assert found is not None
    return {topic: subscription.sub_string for topic, subscription in found.subscriptions.items()}


# -- joining and leaving -------------------------------------------------------------------------------------


def test_everybody_is_told_of_a_new_member_and_of_nothing_else() -> None:
    table = Table()
    assert join(table, ONE, consumer("G", "T")) == {ONE}
    assert join(table, ONE, consumer("G", "T")) is None
    assert join(table, TWO, consumer("G", "T")) == {ONE, TWO}
    assert join(table, THREE, consumer("other", "T")) == {THREE}
    group = table.consumer_group("G")
    assert group is not None
    assert group.client_ids == ["client-1", "client-2"]
    assert (group.consume_type, group.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert group.consume_from_where == "CONSUME_FROM_LAST_OFFSET"


def test_those_who_stay_are_told_of_one_who_leaves() -> None:
    table = Table()
    for line in (ONE, TWO, THREE):
        join(table, line, consumer("G", "T"))
    change = table.unregister_consumer("G", TWO.number)
    assert change is not None
    assert (change.group, set(change.channels)) == ("G", {ONE, THREE})
    assert table.unregister_consumer("G", TWO.number) is None
    assert table.unregister_consumer("no group", ONE.number) is None
    assert table.client_count == 2


def test_the_last_one_takes_the_group_along() -> None:
    table = Table()
    join(table, ONE, consumer("G", "T", "U"))
    assert table.unregister_consumer("G", ONE.number) is None
    assert table.consumer_group("G") is None
    assert table.subscription("G", "T") is None
    assert (table.client_count, table.subscription_count) == (0, 0)


def test_broadcasting_groups_are_told_nothing() -> None:
    table = Table()
    assert join(table, ONE, consumer("G", "T", model="BROADCASTING")) is None
    assert join(table, TWO, consumer("G", "T", model="BROADCASTING")) is None
    assert table.unregister_consumer("G", ONE.number) is None
    assert table.channel_closed(TWO.number) == []


def test_groups_that_want_no_notice_get_none() -> None:
    table = Table()
    assert table.register_consumer(consumer("G", "T"), client(ONE), is_notified=False).change is None
    assert table.register_consumer(consumer("G", "T"), client(TWO), is_notified=False).change is None
    assert table.channel_closed(TWO.number) == []


def test_another_client_id_on_the_same_connection() -> None:
    table = Table()
    join(table, ONE, consumer("G", "T"), "old")
    assert join(table, ONE, consumer("G", "T"), "new") == {ONE}
    group = table.consumer_group("G")
    assert group is not None
    assert group.client_ids == ["new"]


def test_client_that_connects_anew_counts_once_and_is_found_on_the_new_connection() -> None:
    table = Table()
    join(table, TWO, consumer("G", "T"), "c")
    join(table, ONE, consumer("G", "T"), "c")
    group = table.consumer_group("G")
    assert group is not None
    assert group.client_ids == ["c"]
    found = table.find_consumer("G", "c")
    assert found is not None
    assert found.channel == TWO
    # The end of the old connection takes nothing from the new one.
    table.channel_closed(ONE.number)
    assert table.find_consumer("G", "c") == found
    assert table.find_consumer("G", "d") is None
    assert table.find_consumer("no group", "c") is None


def test_one_connection_serves_many_groups() -> None:
    table = Table()
    for group in ("G", "H"):
        join(table, ONE, consumer(group, "T"))
        join(table, TWO, consumer(group, "T"))
    for group in ("P", "Q"):
        table.register_producer(group, client(ONE))
    table.register_producer("P", client(TWO))
    assert table.client_count == 2
    changes = table.channel_closed(ONE.number)
    assert {change.group: change.channels for change in changes} == {"G": [TWO], "H": [TWO]}
    assert {group: set(clients) for group, clients in table.producers.items()} == {"P": {TWO.number}}
    assert table.client_count == 1
    assert table.channel_closed(ONE.number) == []


def test_producers_come_and_go() -> None:
    table = Table()
    table.register_producer("P", client(ONE, now_ms=1))
    table.register_producer("P", client(ONE, now_ms=2))
    assert table.producers["P"][ONE.number].last_seen_ms == 2
    table.unregister_producer("P", TWO.number)
    table.unregister_producer("Q", ONE.number)
    assert list(table.producers) == ["P"]
    table.unregister_producer("P", ONE.number)
    assert (table.producers, table.client_count) == ({}, 0)


# -- subscriptions -------------------------------------------------------------------------------------------


def test_topics_come_and_go_with_heartbeats() -> None:
    table = Table()
    join(table, ONE, consumer("G", "T"))
    join(table, TWO, consumer("G", "T"))
    assert join(table, ONE, consumer("G", "T", "U")) == {ONE, TWO}
    assert topics_of(table) == {"T": "*", "U": "*"}
    assert join(table, ONE, consumer("G", "U")) == {ONE, TWO}
    assert topics_of(table) == {"U": "*"}
    assert table.groups_consuming("U") == {"G"}
    assert table.groups_consuming("T") == set()


def test_only_a_newer_subscription_replaces_one() -> None:
    table = Table()
    join(table, ONE, consumer("G", subscription("T", 5, "A")))
    assert join(table, ONE, consumer("G", subscription("T", 5, "B"))) is None
    assert join(table, ONE, consumer("G", subscription("T", 4, "B"))) is None
    assert topics_of(table) == {"T": "A"}
    assert join(table, ONE, consumer("G", subscription("T", 6, "B"))) is None  # same topics: nobody must rebalance
    assert topics_of(table) == {"T": "B"}
    found = table.subscription("G", "T")
    assert found is not None
    assert found.sub_version == 6


def test_topic_twice_in_one_heartbeat() -> None:
    table = Table()
    join(table, ONE, consumer("G", subscription("T", 2, "A"), subscription("T", 1, "B")))
    assert topics_of(table) == {"T": "A"}
    assert table.subscription_count == 1


def test_subscriptions_left_out_stay_as_they_were() -> None:
    table = Table()
    first = table.register_consumer(consumer("G", "T"), client(ONE), fingerprint=7)
    assert not first.needs_subscriptions
    again = table.register_consumer(consumer("G"), client(ONE), fingerprint=7, keeps_subscriptions=True)
    assert (again.change, again.needs_subscriptions) == (None, False)
    assert topics_of(table) == {"T": "*"}
    other = table.register_consumer(consumer("G"), client(ONE), fingerprint=8, keeps_subscriptions=True)
    assert other.needs_subscriptions
    joined = table.register_consumer(consumer("G"), client(TWO), fingerprint=8, keeps_subscriptions=True)
    assert joined.change is not None
    assert not joined.needs_subscriptions


def test_subscriptions_are_asked_for_when_the_group_was_gone_in_between() -> None:
    table = Table()
    table.register_consumer(consumer("G", "T"), client(ONE), fingerprint=7)
    table.channel_closed(ONE.number)
    back = table.register_consumer(consumer("G"), client(TWO), fingerprint=7, keeps_subscriptions=True)
    assert back.needs_subscriptions


def test_heartbeat_of_the_first_version_makes_the_second_one_send_all() -> None:
    table = Table()
    table.register_consumer(consumer("G", "T"), client(ONE), fingerprint=7)
    table.register_consumer(consumer("G", "T"), client(TWO))
    assert table.register_consumer(
        consumer("G"), client(ONE), fingerprint=7, keeps_subscriptions=True
    ).needs_subscriptions


# -- time ----------------------------------------------------------------------------------------------------


def test_silent_clients_are_forgotten_and_the_others_told() -> None:
    table = Table()
    join(table, ONE, consumer("G", "T"), now_ms=0)
    join(table, TWO, consumer("G", "T"), now_ms=1)
    table.register_producer("P", client(ONE, now_ms=0))
    assert table.expire(TIMEOUT_MS, TIMEOUT_MS) == ([], [])
    expired = table.expire(TIMEOUT_MS + 1, TIMEOUT_MS)
    assert [(change.group, change.channels) for change in expired.changes] == [("G", [TWO])]
    assert expired.abandoned == [ONE]
    assert table.producers == {}
    expired = table.expire(TIMEOUT_MS + 2, TIMEOUT_MS)
    assert (expired.changes, expired.abandoned) == ([], [TWO])
    assert (table.consumers, table.client_count) == ({}, 0)


def test_connection_is_kept_while_one_of_its_groups_is_heard_of() -> None:
    table = Table()
    join(table, ONE, consumer("G", "T"), now_ms=0)
    join(table, ONE, consumer("H", "T"), now_ms=10)
    expired = table.expire(TIMEOUT_MS + 5, TIMEOUT_MS)
    assert expired == ([], [])
    assert list(table.consumers) == ["H"]
    assert table.client_count == 1


def test_several_expire_at_once_and_the_rest_is_told_once() -> None:
    table = Table()
    join(table, ONE, consumer("G", "T"), now_ms=0)
    join(table, TWO, consumer("G", "T"), now_ms=0)
    join(table, THREE, consumer("G", "T"), now_ms=50)
    expired = table.expire(TIMEOUT_MS + 50, TIMEOUT_MS)
    assert [change.channels for change in expired.changes] == [[THREE]]
    assert expired.abandoned == [ONE, TWO]


# -- limits --------------------------------------------------------------------------------------------------


def heartbeat(*consumers: ConsumerData, producers: list[str] | None = None, client_id: str = "c") -> Heartbeat:
    return Heartbeat(client_id, producers or [], list(consumers))


def test_clients_are_limited() -> None:
    table = Table(ClientLimits(max_clients=1))
    join(table, ONE, consumer("G", "T"))
    assert table.limit_problem(ONE.number, heartbeat(consumer("H"))) is None
    assert table.limit_problem(TWO.number, heartbeat()) == "there are 1 clients already"


def test_groups_over_one_connection_are_limited() -> None:
    table = Table(ClientLimits(max_groups_per_client=2))
    assert table.limit_problem(ONE.number, heartbeat(consumer("G"), producers=["P"])) is None
    table.register_producer("P", client(ONE))
    assert table.limit_problem(ONE.number, heartbeat(consumer("G"), producers=["P"])) is None
    assert "more than 2 groups" in (table.limit_problem(ONE.number, heartbeat(consumer("G"), consumer("H"))) or "")


def test_names_are_limited() -> None:
    table = Table(ClientLimits(max_name_length=3))
    assert "longer than 3" in (table.limit_problem(1, heartbeat(client_id="four")) or "")
    assert "longer than 3" in (table.limit_problem(1, heartbeat(producers=["four"])) or "")


def test_subscriptions_are_limited() -> None:
    table = Table(ClientLimits(max_subscriptions_per_group=2, max_subscriptions=3))
    assert "more than 2 subscriptions" in (table.limit_problem(1, heartbeat(consumer("G", "T", "U", "V"))) or "")
    join(table, ONE, consumer("G", "T", "U"))
    assert table.limit_problem(2, heartbeat(consumer("H", "T"))) is None
    assert table.limit_problem(2, heartbeat(consumer("H", "T", "U"))) == "there are 3 subscriptions already"
    assert table.limit_problem(2, heartbeat(consumer("G", "V"), consumer("H", "T", "U"))) is None  # one for two


# -- the table against a simple model ------------------------------------------------------------------------

LINES = st.sampled_from([ONE, TWO, THREE])
GROUPS = st.sampled_from(["G", "H"])
STEPS = st.one_of(
    st.tuples(st.just("join"), LINES, GROUPS, st.lists(st.sampled_from("TUV"), max_size=3)),
    st.tuples(st.just("produce"), LINES, GROUPS),
    st.tuples(st.just("leave"), LINES, GROUPS),
    st.tuples(st.just("stop producing"), LINES, GROUPS),
    st.tuples(st.just("close"), LINES),
    st.tuples(st.just("expire"), st.integers(0, 3)),
)


class Model:
    """Last heartbeats and the topics of each group, with no indexes to keep."""

    def __init__(self) -> None:
        self.consuming: dict[tuple[str, Line], int] = {}
        self.producing: dict[tuple[str, Line], int] = {}
        self.topics: dict[str, set[str]] = {}

    def members(self, group: str) -> set[Line]:
        return {line for name, line in self.consuming if name == group}

    def drop(self, pairs: set[tuple[str, Line]]) -> dict[str, set[Line]]:
        """Whom to tell."""
        gone = pairs & self.consuming.keys()
        for pair in gone:
            del self.consuming[pair]
        told = {group: self.members(group) for group, _ in gone}
        for group in [group for group, members in told.items() if not members]:
            del self.topics[group], told[group]
        return told


@given(st.lists(STEPS, max_size=40))
def test_table_does_what_a_simple_one_does(steps: list[tuple[object, ...]]) -> None:
    table, model = Table(), Model()
    for now, (action, *args) in enumerate(steps):
        told: dict[str, set[Line]] = {}
        expected: dict[str, set[Line]] = {}
        match action, args:
            case "join", [Line() as line, str(group), list(topics)]:
                is_new = (group, line) not in model.consuming
                model.consuming[group, line] = now
                if is_new or model.topics.get(group, set()) != set(topics):
                    expected = {group: model.members(group)}
                model.topics[group] = set(topics)
                channels = join(table, line, consumer(group, *topics), now_ms=now)
                told = {group: channels} if channels is not None else {}
            case "produce", [Line() as line, str(group)]:
                model.producing[group, line] = now
                table.register_producer(group, client(line, now_ms=now))
            case "leave", [Line() as line, str(group)]:
                expected = model.drop({(group, line)})
                change = table.unregister_consumer(group, line.number)
                told = {change.group: set(change.channels)} if change is not None else {}
            case "stop producing", [Line() as line, str(group)]:
                model.producing.pop((group, line), None)
                table.unregister_producer(group, line.number)
            case "close", [Line() as line]:
                expected = model.drop({pair for pair in model.consuming if pair[1] == line})
                model.producing = {pair: seen for pair, seen in model.producing.items() if pair[1] != line}
                told = {change.group: set(change.channels) for change in table.channel_closed(line.number)}
            case "expire", [int(timeout)]:
                expected = model.drop({pair for pair, seen in model.consuming.items() if seen < now - timeout})
                model.producing = {pair: seen for pair, seen in model.producing.items() if seen >= now - timeout}
                expired = table.expire(now, timeout)
                told = {change.group: set(change.channels) for change in expired.changes}
                left = {line for _, line in model.consuming.keys() | model.producing.keys()}
                assert not left & set(expired.abandoned)
            case _:
                pytest.fail(f"unknown step {action}")
        assert told == expected
        check(table, model)


def check(table: Table, model: Model) -> None:
    assert {
        (name, member.channel) for name, group in table.consumers.items() for member in group.clients.values()
    } == model.consuming.keys()
    assert {
        (name, member.channel) for name, members in table.producers.items() for member in members.values()
    } == model.producing.keys()
    assert {name: set(group.subscriptions) for name, group in table.consumers.items()} == model.topics
    assert table.subscription_count == sum(map(len, model.topics.values()))
    assert table.client_count == len({line for _, line in model.consuming.keys() | model.producing.keys()})
