"""One operation on the table, all its consequences."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from apogeemq.nameserver import changes
from apogeemq.nameserver.changes import Change, MinIdNotice, Outcome
from apogeemq.nameserver.config import NameServerConfig
from apogeemq.nameserver.journal import Journal
from apogeemq.nameserver.kv_config import KvConfig
from apogeemq.nameserver.registry import Registry
from tests.unit.event_loop import in_loop
from tests.unit.nameserver.joining import join

LEFT = Change(changes.BROKER_LEFT, "unregistered", "c", "b", 0, "a:1")
NOTICE = MinIdNotice(["a:1"], 1, "a:1", None, None)


class Desk:
    """A registry with clocks that stand still, and what it asked others to do."""

    def __init__(self, folder: Path, config: NameServerConfig | None = None) -> None:
        self.notices: list[MinIdNotice] = []
        self.closed: list[int] = []
        self.journal = Journal(folder, 10_000, 2)
        self.registry = Registry(
            config or NameServerConfig(),
            KvConfig(folder / "kv.json"),
            self.journal,
            send_notice=self.notices.append,
            close_connection=self.closed.append,
            wall_clock=lambda: 1_700_000_000.5,
            monotonic_clock=lambda: 12.345,
        )


def test_clocks_are_what_they_were_given(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert desk.registry.now_ms() == 12_345
    desk.registry.apply(Outcome([LEFT]))
    assert json.loads(desk.journal.read(1, 1).lines)["time"] == 1_700_000_000_500


def test_outcome_without_changes_has_no_consequences(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.registry.apply(Outcome())
    assert (desk.journal.last_sequence, desk.registry.is_snapshot_stale) == (0, False)


def test_changes_are_journalled_and_make_the_snapshot_stale(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.registry.apply(Outcome([LEFT, LEFT], set(), [], [7, 8]))
    assert (desk.journal.last_sequence, desk.registry.is_snapshot_stale, desk.closed) == (2, True, [7, 8])


def test_changed_topics_lose_their_cached_answers(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    registry = desk.registry
    registry.apply(join(registry.table).outcome)
    before = registry.cache.answer("TopicA", True)
    registry.apply(join(registry.table, zone="z").outcome)
    assert registry.cache.get_standard("TopicA") is None
    assert registry.cache.answer("TopicA", True) != before


@pytest.mark.parametrize("is_wanted", [False, True])
def test_brokers_are_told_of_the_lowest_id_only_when_so_configured(tmp_path: Path, is_wanted: bool) -> None:
    desk = Desk(tmp_path, NameServerConfig(notify_min_broker_id_changed=is_wanted))
    desk.registry.apply(Outcome([LEFT], set(), [NOTICE]))
    assert desk.notices == ([NOTICE] if is_wanted else [])


@in_loop
async def test_order_configuration_is_part_of_the_route_when_so_configured(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    registry = desk.registry
    registry.apply(join(registry.table).outcome)
    await registry.kv.put("ORDER_TOPIC_CONFIG", "TopicA", "broker-a:4")
    assert b"orderTopicConf" not in (registry.cache.answer("TopicA", True) or b"")
    registry.config_changed(NameServerConfig(order_message_enable=True))
    assert b'"orderTopicConf":"broker-a:4"' in (registry.cache.answer("TopicA", True) or b"")
    assert b"orderTopicConf" not in (registry.cache.answer("TopicB", True) or b"")


@in_loop
async def test_new_configuration_wakes_watchers_of_routes_it_changes(tmp_path: Path) -> None:
    registry = Desk(tmp_path).registry
    registry.apply(join(registry.table).outcome)
    await registry.kv.put("ORDER_TOPIC_CONFIG", "TopicA", "broker-a:4")
    known = {topic: registry.cache.digest(topic) for topic in ("TopicA", "TopicB")}
    answer = registry.watchers.watch(known, 1_000.0, lambda changed: ",".join(changed).encode())
    registry.config_changed(NameServerConfig(order_message_enable=True))
    assert await answer == b"TopicA"


def test_log_of_one_operation_is_short_however_much_changed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk(tmp_path)
    with caplog.at_level(logging.INFO, "apogeemq.nameserver.registry"):
        desk.registry.apply(join(desk.registry.table, topics=[f"T{number}" for number in range(500)]).outcome)
    assert len(caplog.records) < 30
    assert "481 more" in caplog.text
    assert desk.journal.last_sequence == 501
