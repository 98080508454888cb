"""One form for all texts that mean the same servers, or the same folder."""

from __future__ import annotations

import pytest

from apogeemq.spark.pipeline.text.addresses import folder_named, servers_named


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        ("", set()),
        ("localhost:9876", {"127.0.0.1:9876"}),
        ("LocalHost:9876; 127.0.0.1:9876", {"127.0.0.1:9876"}),
        ("A:1, b:2;", {"a:1", "b:2"}),
        ("http://a:1/;::1:2", {"a:1", "[::1]:2"}),
        ("localhosts:1;my.localhost:1", {"localhosts:1", "my.localhost:1"}),
        ("http://a:80/servers", {"http://a:80/servers"}),
        ("nonsense", {"nonsense"}),
    ],
)
def test_servers(text: str, servers: set[str]) -> None:
    assert servers_named(text) == servers


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("c", "c"),
        ("./c", "c"),
        ("c//d/../", "c"),
        ("/c/./d/", "/c/d"),
        ("//c", "/c"),
        ("/", "/"),
        ("file:/c/", "file:///c"),
        ("file:///c", "file:///c"),
        ("HDFS://Name:8020//c/", "hdfs://Name:8020/c"),
        ("s3a://bucket", "s3a://bucket/"),
        ("s3a://bucket/a#b?c", "s3a://bucket/a#b?c"),
    ],
)
def test_folders(path: str, folder: str) -> None:
    assert folder_named(path) == folder
