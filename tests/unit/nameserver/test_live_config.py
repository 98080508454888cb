"""The configuration changed over the network: what may change does, and is kept; what may not does not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from apogeemq.errors import RequestRefused, StorageFailed
from apogeemq.nameserver.config import FROZEN_KEYS, NameServerConfig, ServerSettings, resolve_settings
from apogeemq.nameserver.live_config import LiveConfig
from apogeemq.protocol.codes import ResponseCode
from apogeemq.transport.tls import TLS_KEYS
from tests.unit.disk import file_size_limit
from tests.unit.event_loop import in_loop

BLACK_LISTED = (ResponseCode.NO_PERMISSION, "Can not update config in black list.")


class Kept:
    """A configuration with its file; `seen` are the changes that took effect."""

    def __init__(self, folder: Path, file: str | None = None, **properties: str) -> None:
        self.path = folder / "namesrv.conf"
        if file is not None:
            self.path.write_text(file)
        self.settings: ServerSettings = resolve_settings(properties, {}, home=folder, config_file=self.path)[0]
        self.seen: list[NameServerConfig] = []
        self.live = LiveConfig(self.settings, self.seen.append)

    async def refusal(self, text: str) -> tuple[int, str | None]:
        before = self.live.shown()
        with pytest.raises(RequestRefused) as caught:
            await self.live.update(text)
        assert self.seen == []
        assert self.live.shown() == before
        return caught.value.code, caught.value.remark


@in_loop
async def test_change_takes_effect_and_is_shown(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    await kept.live.update("orderMessageEnable=true\nwaitSecondsForService=3\n")
    (config,) = kept.seen
    assert (config.order_message_enable, config.wait_seconds_for_service) == (True, 3)
    assert "orderMessageEnable=true\n" in kept.live.shown()
    assert kept.settings.config.order_message_enable is False  # what the run was started with


@in_loop
async def test_changes_add_up(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    await kept.live.update("orderMessageEnable=true")
    await kept.live.update("supportActingMaster=true")
    assert kept.seen[-1].order_message_enable
    assert kept.seen[-1].support_acting_master


@in_loop
async def test_file_keeps_its_comments_order_and_other_keys(tmp_path: Path) -> None:
    kept = Kept(tmp_path, "# the name server of hall 3\nlistenPort = 9876\n\norderMessageEnable=false\nmine=1\n")
    await kept.live.update("orderMessageEnable=true\nsupportActingMaster=true")
    assert kept.path.read_text() == (
        "# the name server of hall 3\nlistenPort = 9876\n\norderMessageEnable=true\nmine=1\nsupportActingMaster=true\n"
    )


@in_loop
async def test_file_in_javas_old_encoding_stays_in_it(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.path.write_bytes("# Größe\nmine=1\n".encode("latin-1"))
    await kept.live.update("orderMessageEnable=true")
    assert kept.path.read_bytes() == "# Größe\nmine=1\norderMessageEnable=true\n".encode("latin-1")


@in_loop
async def test_file_is_made_when_there_is_none(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    await kept.live.update("orderMessageEnable=true")
    assert kept.path.read_text() == "orderMessageEnable=true\n"


@in_loop
async def test_unknown_keys_are_ignored_and_not_kept(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    await kept.live.update("noSuchKey=1\norderMessageEnable=true")
    assert "noSuchKey" not in kept.live.shown()
    assert "noSuchKey" not in kept.path.read_text()


@pytest.mark.parametrize("key", sorted(FROZEN_KEYS | TLS_KEYS | {"tls.any.thing"}))
@in_loop
async def test_paths_addresses_access_and_tls_never_change(tmp_path: Path, key: str) -> None:
    kept = Kept(tmp_path, configBlackList="")
    for text in (f"{key}=x", f"orderMessageEnable=true\n{key}=x\n", f"{key[:-1]}\\u{ord(key[-1]):04x} : x", f"{key}"):
        assert await kept.refusal(text) == BLACK_LISTED
    assert not kept.path.exists()


@in_loop
async def test_black_list_of_the_configuration_counts_too(tmp_path: Path) -> None:
    kept = Kept(tmp_path, configBlackList="orderMessageEnable; supportActingMaster")
    assert await kept.refusal("supportActingMaster=true") == BLACK_LISTED
    await kept.live.update("clusterTest=false")


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("waitSecondsForService=soon", "waitSecondsForService=soon: expected a whole number from 0 to 2147483647"),
        ("waitSecondsForService=-1", "waitSecondsForService=-1: expected a whole number from 0 to 2147483647"),
        ("orderMessageEnable=1", "orderMessageEnable=1: expected true or false"),
        ("orderMessageEnable=true\nmaxFrameSize=1", "maxFrameSize=1: expected a whole number from 4096 to 2147483647"),
        ("orderMessageEnable=\\u00zz", "not a properties file: "),
    ],
)
@in_loop
async def test_bad_value_refuses_the_whole_update(tmp_path: Path, text: str, remark: str) -> None:
    kept = Kept(tmp_path)
    code, said = await kept.refusal(text)
    assert code == ResponseCode.SYSTEM_ERROR
    assert (said or "").startswith(remark)
    assert not kept.path.exists()


@in_loop
async def test_change_that_cannot_be_kept_does_not_happen(tmp_path: Path) -> None:
    kept = Kept(tmp_path, "# comment\n")
    with file_size_limit(5), pytest.raises(StorageFailed):
        await kept.live.update("orderMessageEnable=true")
    assert kept.seen == []
    assert "orderMessageEnable=false\n" in kept.live.shown()
    assert kept.path.read_text() == "# comment\n"


@in_loop
async def test_file_that_cannot_be_read_is_not_overwritten(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.path.mkdir()
    with pytest.raises(StorageFailed, match=r"namesrv\.conf"):
        await kept.live.update("orderMessageEnable=true")
    assert kept.path.is_dir()


@in_loop
async def test_changes_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    keys = ("orderMessageEnable", "supportActingMaster", "clusterTest", "notifyMinBrokerIdChanged")
    await asyncio.gather(*(kept.live.update(f"{key}=true") for key in keys))
    assert {f"{key}=true" for key in keys} == set(kept.path.read_text().split())
    assert all(f"{key}=true\n" in kept.live.shown() for key in keys)


@in_loop
async def test_update_is_finished_when_whoever_asked_is_gone(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    first = asyncio.ensure_future(kept.live.update("orderMessageEnable=true"))
    await asyncio.sleep(0)
    first.cancel()
    await kept.live.update("supportActingMaster=true")
    assert kept.seen[-1].order_message_enable == ("orderMessageEnable=true" in kept.path.read_text())
    assert kept.seen[-1].support_acting_master
