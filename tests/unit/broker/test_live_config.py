"""The broker's configuration changed over the network: what may change does, and is kept; what may not does not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from apogeemq.broker.config import FROZEN_KEYS
from apogeemq.broker.live_config import LiveConfig
from apogeemq.errors import RequestRefused, StorageFailed
from apogeemq.protocol.codes import ResponseCode
from apogeemq.transport.tls import TLS_KEYS
from tests.unit.broker.handlers.members import serving
from tests.unit.disk import file_size_limit
from tests.unit.event_loop import in_loop


@in_loop
async def test_every_part_reads_the_new_values(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        state, seen = broker.state, []
        live = LiveConfig(state, lambda keys: seen.append(set(keys)))
        await live.update("autoCreateSubscriptionGroup=false\nfileReservedTime=5\n")
        assert (state.config.auto_create_subscription_group, state.groups.is_auto_creation_on) == (False, False)
        assert state.store.config.file_reserved_time == 5
        assert seen == [{"autoCreateSubscriptionGroup", "fileReservedTime"}]
        assert "fileReservedTime=5\n" in live.shown()


@in_loop
async def test_limits_of_the_server_follow(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await client.ok(25, b"maxConnections=7\n")
        assert broker.server.limits.max_connections == broker.broker.fast_server.limits.max_connections == 7


@in_loop
async def test_file_given_at_the_start_keeps_its_comments(tmp_path: Path) -> None:
    path = tmp_path / "store" / "config" / "broker.properties"
    path.parent.mkdir(parents=True)
    path.write_text("# the broker of hall 3\nbrokerPermission = 6\nmine=1\n")
    async with serving(tmp_path) as broker:
        live = LiveConfig(broker.state, lambda keys: None)
        await live.update("brokerPermission=4\ndeleteWhen=05")
        assert path.read_text() == "# the broker of hall 3\nbrokerPermission=4\nmine=1\ndeleteWhen=05\n"


@in_loop
async def test_what_never_changes(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        live = LiveConfig(broker.state, lambda keys: None)
        before = live.shown()
        for key in sorted(FROZEN_KEYS | TLS_KEYS | {"tls.any.thing"}):
            for text in (f"{key}=x", f"deleteWhen=05\n{key}=x\n", f"{key[:-1]}\\u{ord(key[-1]):04x} : x"):
                with pytest.raises(RequestRefused) as caught:
                    await live.update(text)
                assert (caught.value.code, caught.value.remark) == (
                    ResponseCode.NO_PERMISSION,
                    "Can not update config in black list.",
                )
        assert live.shown() == before
        assert not (tmp_path / "store/config/broker.properties").exists()


@in_loop
async def test_black_list_of_the_configuration_counts_too(tmp_path: Path) -> None:
    async with serving(tmp_path, configBlackList="deleteWhen; brokerPermission") as broker:
        live = LiveConfig(broker.state, lambda keys: None)
        with pytest.raises(RequestRefused):
            await live.update("brokerPermission=4")
        await live.update("longPollingEnable=false")


@in_loop
async def test_change_that_cannot_be_kept_does_not_happen(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        live = LiveConfig(broker.state, lambda keys: None)
        with file_size_limit(5), pytest.raises(StorageFailed):
            await live.update("longPollingEnable=false")
        assert broker.state.config.long_polling_enable
        assert live.version.counter == 0


@in_loop
async def test_changes_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        live = LiveConfig(broker.state, lambda keys: None)
        changes = [f"{key}=11" for key in ("fileReservedTime", "brokerPermission", "shortPollingTimeMills")]
        await asyncio.gather(*map(live.update, changes))
        assert set((tmp_path / "store/config/broker.properties").read_text().split()) == set(changes)
        assert all(f"{change}\n" in live.shown() for change in changes)
        assert live.version.counter == 3
