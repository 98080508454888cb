"""Where a pipeline reads and writes, and what counts as elsewhere."""

from __future__ import annotations

import pytest

from apogeemq.spark.pipeline.checkpoint.places import changes, places
from apogeemq.spark.pipeline.reading import read_pipeline
from apogeemq.spark.pipeline.spec import PipelineSpec, Sink, SinkKind, Source


def found(spec: PipelineSpec) -> dict[str, str]:
    return places(spec, lambda path: f"file:/here/{path}")


def archive(**given: str) -> dict[str, str]:
    return found(read_pipeline("archive", {"topics": "orders|bills", **given}))


def test_those_of_a_ready_pipeline() -> None:
    assert archive() == {
        "sources.messages/format": "rocketmq",
        "sources.messages/nameServer": "127.0.0.1:9876",
        "sources.messages/topics": "orders|bills",
        "sinks.recent/kind": "parquet",
        "sinks.recent/path": "file:/here/archive/recent",
    }


@pytest.mark.parametrize(
    "given, sentence",
    [
        ({"archive": "other"}, "sinks.recent path: file:/here/archive/recent → file:/here/other/recent"),
        ({"name_server": "127.0.0.1:9877"}, "sources.messages nameServer: 127.0.0.1:9876 → 127.0.0.1:9877"),
        ({"topics": "wishes"}, "sources.messages topics: orders|bills → wishes"),
    ],
)
def test_what_is_elsewhere_is_said(given: dict[str, str], sentence: str) -> None:
    assert list(changes(archive(), archive(**given))) == [sentence]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"name_server": "10.0.0.1:9876;127.0.0.1:9876"},
        {"name_server": "localhost:9876"},
        {"topics": "bills|wishes"},
        {"from": "latest", "most_per_epoch": "7"},
    ],
)
def test_what_changes_in_operation_is_no_other_place(given: dict[str, str]) -> None:
    assert list(changes(archive(), archive(**given))) == []


def test_topics_may_be_named_in_another_way() -> None:
    before = {"sources.all/topics": "orders,bills"}
    assert list(changes(before, {"sources.all/topics": '{"bills": {"broker-a": [0]}}'})) == []
    assert list(changes(before, {"sources.all/topics": '{"wishes": {"broker-a": [0]}}'})) != []


def test_parts_that_come_and_go_have_no_positions_to_lose() -> None:
    one, two = {"sinks.one/path": "a"}, {"sinks.two/path": "b"}
    assert list(changes(one, two)) == list(changes({}, one)) == []
    assert list(changes(one, {"sinks.one/kind": "topic"})) != []


def test_topics_and_dead_letters_of_sinks() -> None:
    mirror = found(read_pipeline("mirror", {"topics": "a,b", "to_name_server": "west:9876"}))
    assert (mirror["sinks.other_cluster/nameServer"], mirror["sinks.other_cluster/topics"]) == ("west:9876", "a,b")
    orders = found(read_pipeline("orders", {}))
    assert (orders["sinks.revenue_topic/topic"], orders["dead_letters/topic"]) == ("revenue", "orders-dead")


def test_tables_have_no_positions() -> None:
    assert found(read_pipeline("lag-audit", {"topics": "orders"})) == {}


@pytest.mark.parametrize(
    "url, shown",
    [
        ("jdbc:postgresql://db/shop?user=me&password=geheim", "jdbc:postgresql://db/shop?user=me&password=…"),
        ("jdbc:sqlserver://db;databaseName=shop;Password=geheim;", "jdbc:sqlserver://db;databaseName=shop;Password=…;"),
        ("jdbc:mysql://me:geheim@db/shop", "jdbc:mysql://…@db/shop"),
        ("jdbc:oracle:thin:me/geheim@//db/shop", "jdbc:oracle:thin:…@//db/shop"),
    ],
)
def test_no_password_is_kept(url: str, shown: str) -> None:
    source = Source(name="orders", format="rocketmq", is_stream=True)
    sink = Sink(name="db", view="orders", kind=SinkKind.JDBC, options={"url": url, "dbTable": "t", "password": "x"})
    kept = found(PipelineSpec(name="p", sources={"orders": source}, sinks={"db": sink}))
    assert kept == {
        "sources.orders/format": "rocketmq",
        "sinks.db/kind": "jdbc",
        "sinks.db/url": shown,
        "sinks.db/dbtable": "t",
    }
