"""The configuration changed over the network: what takes effect, what is kept, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.testing.faulty_files import failing_syncs
from tests.unit.broker.handlers.members import Member, serving
from tests.unit.broker.handlers.traffic import ask_send, refused_send, send
from tests.unit.event_loop import in_loop


async def change(member: Member, text: str) -> tuple[int, str | None]:
    answer = await member.ask(RequestCode.UPDATE_BROKER_CONFIG, text.encode())
    return answer.code, answer.remark


@in_loop
async def test_a_change_takes_effect_and_is_kept_beside_comments(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        file = Path(running.state.config.broker_config_path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("# ours\nfileReservedTime=1\n")
        member = running.member("admin")
        assert await change(member, "fileReservedTime=48\nmaxMessageSize=10\n") == (ResponseCode.SUCCESS, None)
        assert running.state.store_config.file_reserved_time == 48
        assert (await refused_send(member, body=b"more than ten"))[0] == ResponseCode.MESSAGE_ILLEGAL
        assert file.read_text() == "# ours\nfileReservedTime=48\nmaxMessageSize=10\n"


@in_loop
async def test_sends_wait_for_the_disk_from_the_moment_that_is_wanted(tmp_path: Path) -> None:
    async with serving(tmp_path, flushIntervalCommitLog="3600000") as running:
        member = running.member("admin")
        await send(member)
        assert running.state.store.log.flushed_offset == 0
        await change(member, "flushDiskType=SYNC_FLUSH")
        await send(member)
        assert running.state.store.log.flushed_offset == running.state.store.log.max_offset
        with failing_syncs(lambda path: path.parent.name == "commitlog"):
            assert (await ask_send(member)).code == ResponseCode.FLUSH_DISK_TIMEOUT


@pytest.mark.parametrize("key", ["listenPort", "configBlackList", "tls.server.mode", "storePathRootDir"])
@in_loop
async def test_a_frozen_key_refuses_all_of_it(tmp_path: Path, key: str) -> None:
    async with serving(tmp_path) as running:
        member = running.member("admin")
        code, remark = await change(member, f"fileReservedTime=48\n{key}=1\n")
        assert (code, remark) == (ResponseCode.NO_PERMISSION, "Can not update config in black list.")
        assert running.state.store_config.file_reserved_time == 72


@pytest.mark.parametrize("text", ["fileReservedTime=soon", "brokerRole=SLAVE", "flushDiskType=NEVER", "aclEnable=true"])
@in_loop
async def test_a_value_that_cannot_be_is_refused(tmp_path: Path, text: str) -> None:
    async with serving(tmp_path) as running:
        code, remark = await change(running.member("admin"), text)
        assert code in (ResponseCode.SYSTEM_ERROR, ResponseCode.NO_PERMISSION)
        assert remark
        assert not Path(running.state.config.broker_config_path).exists()
