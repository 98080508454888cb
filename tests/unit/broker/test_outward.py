"""Where a broker looks for name servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from apogeemq.broker.config import BrokerConfig
from apogeemq.broker.outward import Outward, name_server_source
from apogeemq.errors import NoNameServer
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.transport.discovery import HttpAddressServer
from tests.unit.event_loop import in_loop
from tests.unit.name_servers import name_server


@in_loop
async def test_nowhere_unless_told(tmp_path: Path) -> None:
    """The environment's variable is the command line's business."""
    assert name_server_source(BrokerConfig(), {"NAMESRV_ADDR": "a:1"}) is None
    outward = Outward(BrokerConfig, {}, {})
    await outward.find_name_servers()
    assert (outward.has_name_servers, outward.name_servers) == (False, ())
    with pytest.raises(NoNameServer, match="namesrvAddr is not set"):
        await outward.ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO)
    await outward.close()


@in_loop
async def test_a_list_is_taken_as_it_is() -> None:
    source = name_server_source(BrokerConfig(namesrv_addr="b:2;a:1"), {})
    assert source is not None
    assert await source.fetch() == ["b:2", "a:1"]
    assert source.refresh_seconds is None


@in_loop
async def test_names_may_stand_for_all_their_addresses() -> None:
    config = BrokerConfig(
        namesrv_addr="localhost:9876;127.0.0.2:9876",
        fetch_name_srv_addr_by_dns_lookup=True,
        update_name_server_addr_period=7_000,
    )
    source = name_server_source(config, {})
    assert source is not None
    found = await source.fetch()
    assert "127.0.0.2:9876" in found
    assert "localhost:9876" not in found
    assert {"127.0.0.1:9876", "[::1]:9876"} & set(found)
    assert source.refresh_seconds == 7


@pytest.mark.parametrize(
    ("config", "environment", "url"),
    [
        (BrokerConfig(), {}, "http://jmenv.tbsite.net:8080/rocketmq/nsaddr"),
        (BrokerConfig(), {"ROCKETMQ_NAMESRV_DOMAIN": "env:1"}, "http://env:1/rocketmq/nsaddr"),
        (
            BrokerConfig(rmq_address_server_domain="file:1", rmq_address_server_sub_group="mine"),
            {"ROCKETMQ_NAMESRV_DOMAIN": "env:1"},
            "http://file:1/rocketmq/mine",
        ),
    ],
)
def test_an_address_server(
    config: BrokerConfig, environment: dict[str, str], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = []
    monkeypatch.setattr(HttpAddressServer, "__init__", lambda self, given: urls.append(given))
    config.fetch_namesrv_addr_by_address_server = True
    assert name_server_source(config, environment) is not None
    assert urls == [url]


@in_loop
async def test_a_bad_list_later_leaves_things_as_they_are(tmp_path: Path) -> None:
    async with name_server(tmp_path) as (_, address):
        config = BrokerConfig(namesrv_addr=address)
        outward = Outward(lambda: config, {}, {})
        await outward.find_name_servers()
        config = BrokerConfig(namesrv_addr="nowhere")
        await outward.tick()
        assert outward.name_servers == (address,)
        answer = await outward.ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO)
        assert answer.code == ResponseCode.SUCCESS
        await outward.close()
