"""KV table and configuration, over the wire."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.runtime.config import parse_properties
from tests.unit.disk import file_size_limit
from tests.unit.event_loop import in_loop
from tests.unit.nameserver.live import Home

PUT, GET, DELETE, LIST = (
    RequestCode.PUT_KV_CONFIG,
    RequestCode.GET_KV_CONFIG,
    RequestCode.DELETE_KV_CONFIG,
    RequestCode.GET_KVLIST_BY_NAMESPACE,
)


@in_loop
async def test_values_are_put_read_listed_and_deleted(home: Home) -> None:
    async with home.serve() as running:
        client = running.client()
        assert await client.refused(GET, namespace="ns", key="k") == (
            ResponseCode.QUERY_NOT_FOUND,
            "No config item, Namespace: ns Key: k",
        )
        assert await client.refused(LIST, namespace="ns") == (
            ResponseCode.QUERY_NOT_FOUND,
            "No config item, Namespace: ns",
        )
        await client.ok(PUT, namespace="ns", key="k", value="v")
        assert (await client.ok(GET, namespace="ns", key="k")).fields() == {"value": "v"}
        assert (await client.ok(LIST, namespace="ns")).body == b'{"table":{"k":"v"}}'
        await client.ok(DELETE, namespace="ns", key="k")
        assert (await client.ok(LIST, namespace="ns")).body == b'{"table":{}}'
        await client.ok(DELETE, namespace="nowhere", key="k")


@in_loop
async def test_namespace_and_key_are_needed_to_put(home: Home) -> None:
    refusal = (ResponseCode.SYSTEM_ERROR, "namespace or key is null")
    async with home.serve() as running:
        client = running.client()
        assert await client.refused(PUT, key="k", value="v") == refusal
        assert await client.refused(PUT, namespace="ns", value="v") == refusal
        assert running.name_server.registry.kv.table == {}


@in_loop
async def test_whole_table_at_once(home: Home) -> None:
    async with home.serve() as running:
        client = running.client()
        await client.ok(PUT, namespace="a", key="k", value="1")
        await client.ok(PUT, namespace="b", key="k", value="2")
        answer = await client.ok(RequestCode.GET_ALL_KV_CONFIG)
        assert json.loads(answer.body) == {"configTable": {"a": {"k": "1"}, "b": {"k": "2"}}}


@in_loop
async def test_values_survive_a_restart(home: Home) -> None:
    async with home.serve() as running:
        await running.client().ok(PUT, namespace="ns", key="k", value="v")
    async with home.serve() as running:
        assert (await running.client().ok(GET, namespace="ns", key="k")).fields() == {"value": "v"}


@in_loop
async def test_value_that_cannot_be_kept_is_an_error_and_is_not_there(home: Home) -> None:
    async with home.serve(journalEnable="false", warmStart="false") as running:
        client = running.client()
        await client.ok(PUT, namespace="ns", key="k", value="v")
        with file_size_limit(5):
            code, remark = await client.refused(PUT, namespace="ns", key="k", value="w")
        assert code == ResponseCode.SYSTEM_ERROR
        assert "cannot write" in (remark or "")
        assert (await client.ok(GET, namespace="ns", key="k")).fields() == {"value": "v"}


@in_loop
async def test_many_puts_at_once_are_all_kept(home: Home) -> None:
    async with home.serve() as running:
        client = running.client()
        await asyncio.gather(*(client.ok(PUT, namespace="ns", key=str(number), value="v") for number in range(40)))
        kept = json.loads((home.folder / "kvConfig.json").read_bytes())
        assert len(kept["configTable"]["ns"]) == 40


@in_loop
async def test_configuration_is_shown_and_changed(home: Home) -> None:
    async with home.serve() as running:
        client = running.client()
        shown = parse_properties((await client.ok(RequestCode.GET_NAMESRV_CONFIG)).body.decode())
        assert shown["orderMessageEnable"] == "false"
        assert Path(shown["kvConfigPath"]) == home.folder / "kvConfig.json"
        await client.ok(
            RequestCode.UPDATE_NAMESRV_CONFIG, b"orderMessageEnable=true\nserverChannelMaxIdleTimeSeconds=7"
        )
        shown = parse_properties((await client.ok(RequestCode.GET_NAMESRV_CONFIG)).body.decode())
        assert shown["orderMessageEnable"] == "true"
        assert running.name_server.server.limits.idle_seconds == 7
        assert "orderMessageEnable=true" in (home.folder / "namesrv.properties").read_text()


@in_loop
async def test_configuration_update_that_may_not_be(home: Home) -> None:
    update = RequestCode.UPDATE_NAMESRV_CONFIG
    async with home.serve() as running:
        client = running.client()
        assert await client.refused(update, b"kvConfigPath=/tmp/x\norderMessageEnable=true") == (
            ResponseCode.NO_PERMISSION,
            "Can not update config in black list.",
        )
        assert await client.refused(update, b"orderMessageEnable=perhaps") == (
            ResponseCode.SYSTEM_ERROR,
            "orderMessageEnable=perhaps: expected true or false",
        )
        assert await client.refused(update, b"\xff\xfe") == (
            ResponseCode.SYSTEM_ERROR,
            "the configuration is not UTF-8 text",
        )
        assert running.name_server.registry.config.order_message_enable is False
        await client.ok(update, b"noSuchKey=1")
        await client.ok(update)
