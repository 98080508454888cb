"""The KV table: what is said to be kept is on the disk, in Apache's format; what is not kept is not there."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from apogeemq.errors import StorageFailed
from apogeemq.nameserver.kv_config import KvConfig
from tests.unit.disk import file_size_limit
from tests.unit.event_loop import in_loop


def loaded(path: Path) -> KvConfig:
    kv = KvConfig(path)
    kv.load()
    return kv


@in_loop
async def test_put_is_on_the_disk_in_apaches_format_when_it_returns(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "kvConfig.json"
    kv = loaded(path)
    await kv.put("ORDER_TOPIC_CONFIG", "TopicA", "broker-a:8;broker-b:8")
    await kv.put("ns", "ключ", "значение")
    assert json.loads(path.read_bytes()) == {
        "configTable": {"ORDER_TOPIC_CONFIG": {"TopicA": "broker-a:8;broker-b:8"}, "ns": {"ключ": "значение"}}
    }
    assert kv.get("ns", "ключ") == "значение"
    assert kv.order_conf("TopicA") == "broker-a:8;broker-b:8"
    assert loaded(path).table == kv.table


@in_loop
async def test_content_before_the_last_change_is_kept_beside_it(tmp_path: Path) -> None:
    kv = loaded(tmp_path / "kv.json")
    await kv.put("ns", "k", "1")
    before = (tmp_path / "kv.json").read_bytes()
    await kv.put("ns", "k", "2")
    assert (tmp_path / "kv.json.bak").read_bytes() == before


def test_file_as_apache_writes_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "kv.json").write_text('{"configTable":{"ORDER_TOPIC_CONFIG":{"T":"a:1"},"empty":{}}}')
    assert loaded(tmp_path / "kv.json").table == {"ORDER_TOPIC_CONFIG": {"T": "a:1"}, "empty": {}}


@pytest.mark.parametrize("content", ["", "  \n", "{}", '{"configTable":{}}'])
def test_missing_or_empty_file_is_an_empty_table(tmp_path: Path, content: str) -> None:
    assert loaded(tmp_path / "missing.json").table == {}
    (tmp_path / "kv.json").write_text(content)
    assert loaded(tmp_path / "kv.json").table == {}


def test_damaged_file_gives_way_to_the_one_before(tmp_path: Path) -> None:
    (tmp_path / "kv.json").write_text('{"configTable":{"ns":{"k":')
    (tmp_path / "kv.json.bak").write_text('{"configTable":{"ns":{"k":"v"}}}')
    assert loaded(tmp_path / "kv.json").get("ns", "k") == "v"


@pytest.mark.parametrize(
    "content", ['{"configTable":{"ns":{"k":', "[]", '{"configTable":{"ns":{"k":1}}}', "[" * 100_000]
)
def test_damaged_file_without_another_is_an_error_and_stays(tmp_path: Path, content: str) -> None:
    (tmp_path / "kv.json").write_text(content)
    with pytest.raises(StorageFailed, match=r"kv\.json"):
        loaded(tmp_path / "kv.json")
    assert (tmp_path / "kv.json").read_text() == content


def test_what_a_crash_left_half_written_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "kv.json").write_text('{"configTable":{"ns":{"k":"v"}}}')
    (tmp_path / "kv.json.tmp").write_text('{"configTable":{"ns":{"k":"ne')
    assert loaded(tmp_path / "kv.json").get("ns", "k") == "v"


@in_loop
async def test_namespace_once_used_stays_empty(tmp_path: Path) -> None:
    kv = loaded(tmp_path / "kv.json")
    assert kv.encoded_namespace("ns") is None
    await kv.put("ns", "k", "v")
    assert kv.encoded_namespace("ns") == b'{"table":{"k":"v"}}'
    await kv.delete("ns", "k")
    assert kv.encoded_namespace("ns") == b'{"table":{}}'
    assert kv.get("ns", "k") is None
    assert loaded(tmp_path / "kv.json").table == {"ns": {}}


@in_loop
async def test_deleting_what_is_not_there_is_no_error(tmp_path: Path) -> None:
    kv = loaded(tmp_path / "kv.json")
    await kv.delete("nowhere", "k")
    assert not (tmp_path / "kv.json").exists()
    await kv.put("ns", "k", "v")
    await kv.delete("ns", "other")
    assert kv.table == {"ns": {"k": "v"}}


@in_loop
async def test_put_without_a_value_takes_the_key_away(tmp_path: Path) -> None:
    kv = loaded(tmp_path / "kv.json")
    await kv.put("ns", "k", "v")
    await kv.put("ns", "k", None)
    assert kv.table == {"ns": {}}


@in_loop
async def test_change_that_cannot_be_kept_is_an_error_and_does_not_happen(tmp_path: Path) -> None:
    path = tmp_path / "kv.json"
    kv = loaded(path)
    await kv.put("ns", "k", "v")
    before = path.read_bytes()
    with file_size_limit(10):
        for change in (kv.put("ns", "k", "w"), kv.put("new", "k", "v"), kv.delete("ns", "k")):
            with pytest.raises(StorageFailed, match=r"kv\.json"):
                await change
    assert kv.table == {"ns": {"k": "v"}}
    assert path.read_bytes() == before
    await kv.put("ns", "k", "w")
    assert loaded(path).table == {"ns": {"k": "w"}}


@in_loop
async def test_changes_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    kv = loaded(tmp_path / "kv.json")
    await asyncio.gather(*(kv.put("ns", str(number), "v") for number in range(50)))
    assert len(kv.table["ns"]) == 50
    assert loaded(tmp_path / "kv.json").table == kv.table


@in_loop
async def test_who_asked_may_go_away_at_any_time(tmp_path: Path) -> None:
    """A change that has begun is finished before the next one begins: file and table never part."""
    path = tmp_path / "kv.json"
    kv = loaded(path)
    large = "x" * 20_000_000  # so that writing takes a moment
    for number in range(5):
        change = asyncio.ensure_future(kv.put("ns", "large", f"{number}{large}"))
        while not (tmp_path / "kv.json.tmp").exists() and not change.done():
            await asyncio.sleep(0)
        change.cancel()
        await asyncio.gather(change, kv.put("ns", "small", str(number)), return_exceptions=True)
        assert kv.get("ns", "small") == str(number)
        assert loaded(path).table == kv.table
