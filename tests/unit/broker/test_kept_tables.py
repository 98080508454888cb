"""What outlives the broker, in Apache's files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from apogeemq.broker.tables.delay_offsets import DelayOffsets
from apogeemq.errors import StorageFailed
from apogeemq.model.groups import GroupConfig
from apogeemq.model.topics import TopicConfig
from tests.unit.broker.handlers.members import serving
from tests.unit.broker.handlers.traffic import pull, send
from tests.unit.broker.tables import test_delay_offsets, test_groups, test_offsets, test_topics
from tests.unit.disk import file_size_limit
from tests.unit.event_loop import in_loop
from tests.unit.nameserver.live import eventually

FILES = ("topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json")


@in_loop
async def test_a_folder_of_apaches_is_taken_over(tmp_path: Path) -> None:
    folder = tmp_path / "store" / "config"
    folder.mkdir(parents=True)
    written = (test_topics, test_groups, test_offsets, test_delay_offsets)
    for name, module in zip(FILES, written, strict=True):
        (folder / name).write_bytes(module.APACHE_FILE)
    async with serving(tmp_path) as running:
        state = running.state
        assert state.topics.topics["T"].write_queue_nums == 8
        assert state.topics.topics["TBW102"].perm == 7  # what every broker has is added
        assert state.groups.groups["G"].retry_max_times == 3
        assert state.offsets.query("G", "T", 1) == 7
        assert running.broker.delay_offsets.get(1) == 12
        state.topics.put(TopicConfig(topic_name="U"), 1)
        await state.keep_topics()
        assert (folder / "topics.json.bak").read_bytes() == test_topics.APACHE_FILE


@in_loop
async def test_everything_survives_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        state = running.state
        state.topics.put(TopicConfig(topic_name="T", read_queue_nums=3, order=True), 1)
        state.groups.put(GroupConfig(group_name="G", retry_max_times=5), 1)
        state.offsets.commit("G", "T", 2, 7)
        running.broker.delay_offsets.set(4, 0)
        kept = state.topics.topics["T"], state.groups.groups["G"], state.topics.data_version
    assert all((tmp_path / "store" / "config" / name).exists() for name in FILES)
    async with serving(tmp_path) as running:
        state = running.state
        assert (state.topics.topics["T"], state.groups.groups["G"], state.topics.data_version) == kept
        assert state.offsets.query("G", "T", 2) == 7
        assert running.broker.delay_offsets.table == {4: 0}


@in_loop
async def test_topics_and_groups_are_written_when_they_change_and_offsets_soon_after(tmp_path: Path) -> None:
    folder = tmp_path / "store" / "config"
    async with serving(tmp_path, flushConsumerOffsetInterval="1") as running:
        member = running.member("c1")
        await send(member)
        await pull(member, flags=5, commitOffset="1")
        await eventually(lambda: (folder / "consumerOffset.json").exists())
        await eventually(lambda: b'"T@G":{0:1}' in (folder / "consumerOffset.json").read_bytes())
        await eventually(lambda: b'"G"' in (folder / "subscriptionGroup.json").read_bytes())
        assert b'"T"' in (folder / "topics.json").read_bytes()
        killed = tmp_path / "killed"
        shutil.copytree(tmp_path / "store", killed / "store", ignore=shutil.ignore_patterns("*.tmp"))
    async with serving(killed) as running:
        assert running.state.offsets.query("G", "T", 0) == 1
        assert running.state.topics.get("T") is not None


@in_loop
async def test_nothing_is_written_when_nothing_has_changed(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        running.state.offsets.commit("G", "T", 0, 1)
        await running.broker.tables.save_all()
    path = tmp_path / "store" / "config" / "consumerOffset.json"
    before = path.stat().st_ino
    async with serving(tmp_path) as running:
        await running.broker.tables.save_all()
    assert path.stat().st_ino == before


@pytest.mark.parametrize("name", FILES)
@in_loop
async def test_a_broken_file_stops_the_start_unless_its_predecessor_is_whole(tmp_path: Path, name: str) -> None:
    async with serving(tmp_path) as running:
        running.state.topics.put(TopicConfig(topic_name="T"), 1)
        running.state.groups.put(GroupConfig(group_name="G"), 1)
        running.state.offsets.commit("G", "T", 0, 7)
        running.broker.delay_offsets.set(1, 0)
    path = tmp_path / "store" / "config" / name
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    path.with_name(f"{name}.bak").unlink(missing_ok=True)
    with pytest.raises(StorageFailed, match=name):
        async with serving(tmp_path):
            pass
    assert path.read_bytes() == whole[: len(whole) // 2]
    path.with_name(f"{name}.bak").write_bytes(whole)
    async with serving(tmp_path) as running:
        assert running.state.topics.get("T") is not None
        assert running.state.offsets.query("G", "T", 0) == 7


@in_loop
async def test_a_full_disk_is_counted_and_made_up_for(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        for number in range(100):
            running.state.offsets.commit("G", f"T{number}", 0, 1)
        with file_size_limit(500):
            await running.broker.tables.save_all()
        assert running.broker.tables.failure_count >= 1
        await running.broker.tables.save_all()
        content = (tmp_path / "store" / "config" / "consumerOffset.json").read_bytes()
        assert b'"T99@G":{0:1}' in content


def test_a_table_of_delays_begins_with_the_time_it_was_made() -> None:
    assert DelayOffsets(5).data_version.timestamp == 5
