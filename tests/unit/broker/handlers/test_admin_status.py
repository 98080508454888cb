"""The broker itself: its status, its configuration, what went through it."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest

from apogeemq.protocol.codes import RequestCode, ResponseCode
from tests.unit.broker.handlers.asking import create_topic, pull_fields, send, told
from tests.unit.broker.handlers.members import Member, serving
from tests.unit.event_loop import in_loop
from tests.unit.nameserver.live import Home, eventually

# What `mqadmin clusterList` reads as numbers.
NUMBERS = (
    *("earliestMessageTimeStamp", "commitLogDiskRatio", "timerReadBehind", "timerOffsetBehind", "timerCongestNum"),
    *("timerEnqueueTps", "timerDequeueTps", "sendThreadPoolQueueSize", "pullThreadPoolQueueSize"),
    *("ackThreadPoolQueueSize", "sendThreadPoolQueueHeadWaitTimeMills", "pullThreadPoolQueueHeadWaitTimeMills"),
    *("ackThreadPoolQueueHeadWaitTimeMills", "pageCacheLockTimeMills", "msgPutTotalYesterdayMorning"),
    *("msgPutTotalTodayMorning", "msgPutTotalTodayNow", "msgGetTotalYesterdayMorning", "msgGetTotalTodayMorning"),
    *("msgGetTotalTodayNow", "putLatency99", "putLatency999", "bootTimestamp", "putMessageAverageSize"),
)


async def status_of(client: Member) -> dict[str, str]:
    table: dict[str, str] = told(await client.ok(RequestCode.GET_BROKER_RUNTIME_INFO))["table"]
    return table


@in_loop
async def test_status_has_what_tools_read(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        table = await status_of(client)
        assert all(float(table[name]) >= -1 for name in NUMBERS)
        for name in ("putTps", "getFoundTps", "getMissTps", "getTotalTps", "getTransferredTps"):
            assert table[name] == "0.0 0.0 0.0"
        assert (table["brokerActive"], table["brokerVersionDesc"]) == ("true", "V5_5_0")
        assert table["runtime"].startswith("[ 0 days, 0 hours, 0 minutes, ")
        assert table["earliestMessageTimeStamp"] == "-1"


@in_loop
async def test_status_follows_what_happens(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await create_topic(client)
        for _ in range(4):
            await send(client)
        await client.ok(RequestCode.PULL_MESSAGE, **pull_fields())
        await client.ask(RequestCode.PULL_MESSAGE, **pull_fields(offset=4))
        broker.broker.windows.sample(broker.state.now_ms(), date(2024, 1, 2))
        broker.broker.delay_offsets.set(3, 7)
        table = await status_of(client)
        assert table["putTps"] == "0.4 0.4 0.4"
        assert table["getTransferredTps"].split()[0] == "0.4"
        assert (table["getFoundTps"].split()[0], table["getMissTps"].split()[0]) == ("0.1", "0.1")
        assert (table["msgPutTotalTodayMorning"], table["msgPutTotalTodayNow"]) == ("4", "4")  # another day began
        assert table["commitLogMaxOffset"] == str(broker.state.store.log.max_offset)
        assert int(table["earliestMessageTimeStamp"]) >= int(table["bootTimestamp"])
        assert table["scheduleMessageOffset_3"] == "7,0"


# -- configuration -------------------------------------------------------------------------------------------


async def config_of(client: Member) -> dict[str, str]:
    text = (await client.ok(RequestCode.GET_BROKER_CONFIG)).body.decode()
    return dict(line.split("=", 1) for line in text.splitlines())


@in_loop
async def test_configuration_is_shown_changed_and_kept(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        answer = await client.ok(RequestCode.GET_BROKER_CONFIG)
        before = msgspec.json.decode(answer.fields()["version"])
        shown = await config_of(client)
        assert (shown["brokerName"], shown["flushDiskType"], shown["longPollingEnable"]) == (
            "broker-a",
            "ASYNC_FLUSH",
            "true",
        )
        await client.ok(RequestCode.UPDATE_BROKER_CONFIG, b"longPollingEnable=false\nmaxMessageSize=9\nnoSuchKey=1\n")
        shown = await config_of(client)
        assert (shown["longPollingEnable"], shown["maxMessageSize"], "noSuchKey" in shown) == ("false", "9", False)
        after = msgspec.json.decode((await client.ok(RequestCode.GET_BROKER_CONFIG)).fields()["version"])
        assert after["counter"] == before["counter"] + 1
        kept = (tmp_path / "store/config/broker.properties").read_text()
        assert set(kept.split()) == {"longPollingEnable=false", "maxMessageSize=9"}
        await create_topic(client)
        asked: dict[str, Any] = {"a": "P", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "0", "h": "0"}
        code, _ = await client.refused(RequestCode.SEND_MESSAGE_V2, b"0123456789", **asked)
        assert code == ResponseCode.MESSAGE_ILLEGAL


@pytest.mark.parametrize(
    ("text", "code", "remark"),
    [
        (b"configBlackList=x", 16, "Can not update config in black list."),
        (b"brokerPermission=4\nbrokerConfigPath=/x", 16, "Can not update config in black list."),
        (b"storePathRootDir=/tmp/x", 16, "Can not update config in black list."),
        (b"tls.server.mode=disabled", 16, "Can not update config in black list."),
        (
            b"flushConsumerOffsetInterval=x",
            1,
            "flushConsumerOffsetInterval=x: expected a whole number from 1 to 2147483647",
        ),
        (b"brokerPermission=4\nlongPollingEnable=1", 1, "longPollingEnable=1: expected true or false"),
        (b"flushDiskType=NEVER", 1, "flushDiskType=NEVER: expected ASYNC_FLUSH or SYNC_FLUSH"),
        (b"\xff\xfe", 1, "the configuration is not UTF-8 text"),
        (b"#" * 300_000, 1, "the configuration is longer than 262144 bytes"),
    ],
)
@in_loop
async def test_bad_update_changes_nothing(tmp_path: Path, text: bytes, code: int, remark: str) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        before = await config_of(client)
        assert await client.refused(RequestCode.UPDATE_BROKER_CONFIG, text) == (code, remark)
        assert await config_of(client) == before
        assert not (tmp_path / "store/config/broker.properties").exists()


@in_loop
async def test_nothing_to_change_is_no_change(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        for text in (b"", b"# only a comment\n", b"noSuchKey=1"):
            await client.ok(RequestCode.UPDATE_BROKER_CONFIG, text)
        assert not (tmp_path / "store/config/broker.properties").exists()


@in_loop
async def test_permission_of_the_broker_is_told_to_name_servers_at_once(tmp_path: Path) -> None:
    async with (
        Home(tmp_path / "names").serve() as names,
        serving(tmp_path, namesrvAddr=names.address) as broker,
    ):
        client, asker = broker.member("admin"), names.client()
        await create_topic(client)
        perms: list[int] = []

        async def look() -> int:
            route = await asker.route("T")
            perms.append(route["queueDatas"][0]["perm"] if route else -1)
            return perms[-1]

        while await look() != 6:
            pass
        await client.ok(RequestCode.UPDATE_BROKER_CONFIG, b"brokerPermission=4\n")
        while await look() != 4:
            pass
        await eventually(lambda: broker.state.config.broker_permission == 4)


# -- statistics ----------------------------------------------------------------------------------------------


@in_loop
async def test_statistics_by_name_and_key(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await create_topic(client)
        for _ in range(6):
            await send(client)
        await client.ok(RequestCode.PULL_MESSAGE, **pull_fields())
        broker.broker.windows.sample(broker.state.now_ms(), date.today())

        async def minute(name: str, key: str) -> tuple[int, float, float]:
            answer = told(await client.ok(RequestCode.VIEW_BROKER_STATS_DATA, statsName=name, statsKey=key))
            assert set(answer) == {"statsMinute", "statsHour", "statsDay"}
            row = answer["statsMinute"]
            return row["sum"], row["tps"], row["avgpt"]

        assert await minute("TOPIC_PUT_NUMS", "T") == (6, 0.6, 1.0)
        assert (await minute("TOPIC_PUT_SIZE", "T"))[0] == broker.state.stats.puts.rows["T"].size
        assert await minute("GROUP_GET_NUMS", "T@G") == (6, 0.6, 6.0)


@pytest.mark.parametrize(("name", "key"), [("TOPIC_PUT_NUMS", "NONE"), ("NONE", "T"), ("GROUP_GET_NUMS", "T@G")])
@in_loop
async def test_statistics_that_are_not_there(tmp_path: Path, name: str, key: str) -> None:
    async with serving(tmp_path) as broker:
        answer = await broker.member("admin").refused(RequestCode.VIEW_BROKER_STATS_DATA, statsName=name, statsKey=key)
        assert answer == (ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")


@in_loop
async def test_replication_of_a_master_alone(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await create_topic(client)
        await send(client)
        answer = told(await client.ok(RequestCode.GET_BROKER_HA_STATUS))
        assert (answer["master"], answer["inSyncSlaveNums"], answer["haConnectionInfo"]) == (True, 0, [])
        assert answer["masterCommitLogMaxOffset"] == broker.state.store.log.max_offset
