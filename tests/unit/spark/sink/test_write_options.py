from __future__ import annotations

import pickle

import pytest

from apogeemq.errors import ConfigError
from apogeemq.spark.sink.write_options import WriteOptions, once_problem, read_write_options


def read(**options: str) -> WriteOptions:
    return read_write_options({"nameServer": "127.0.0.1:9876", **options})


def test_nothing_but_the_address_is_needed() -> None:
    found = read()
    assert (found.connection.name_server, found.topic, found.compression) == ("127.0.0.1:9876", "", "none")


def test_every_option_is_read_whatever_its_case() -> None:
    found = read(
        TOPIC="orders",
        producergroup="shop",
        batchMessages="7",
        batchBytes="1000",
        maxInFlight="3",
        sendTimeoutMs="900",
        compression="ZSTD",
        compressAbove="10",
        compressionLevel="22",
        maxMessageBytes="2000",
        orderByShardingKey="false",
        idColumns="a, b",
        queryId="q",
        systemProperties="drop",
        topicQueues="9",
        lostBrokers="broker-z",
        retries="1",
    )
    assert found == WriteOptions(
        connection=found.connection,
        topic="orders",
        producer_group="shop",
        batch_messages=7,
        batch_bytes=1000,
        max_in_flight=3,
        send_timeout_ms=900,
        compression="zstd",
        compress_above=10,
        compression_level=22,
        max_message_bytes=2000,
        orders_by_sharding_key=False,
        id_columns=("a", "b"),
        query_id="q",
        system_properties="drop",
        topic_queues=9,
        lost_brokers=("broker-z",),
    )
    assert found.connection.retries == 1


def test_options_travel() -> None:
    options = read(topic="orders", idColumns="a")
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"topics_": "a"}, "unknown option topics_; did you mean topics"),
        ({"subscribe": "orders"}, "unknown option subscribe"),
        ({"topic": "no spaces"}, "option topic is 'no spaces'"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, "only brokers send"),
        ({"topic": "a", "topics": "a,b"}, "contradict"),
        ({"topics": "a,b c"}, "option topics is 'b c'"),
        ({"producerGroup": "no spaces"}, "option producerGroup"),
        ({"batchMessages": "0"}, "option batchMessages is '0': expected a whole number from 1"),
        ({"batchBytes": "5000000"}, "batchBytes is 5000000: expected no more than maxMessageBytes"),
        ({"compression": "brotli"}, "one of none, zlib, lz4, zstd"),
        ({"compressAbove": "10"}, "option compressAbove needs compression"),
        ({"compression": "zlib", "compressionLevel": "10"}, "from 0 to 9"),
        ({"orderByShardingKey": "maybe"}, "true or false"),
        ({"systemProperties": "keep"}, "one of error, drop"),
        ({"sendTimeoutMs": "soon"}, "option sendTimeoutMs is 'soon'"),
    ],
)
def test_what_is_wrong_is_named(options: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words.replace("(", r"\(")):
        read(**options)


def test_the_address_is_needed() -> None:
    with pytest.raises(ConfigError, match="nameServer is missing"):
        read_write_options({"topic": "orders"})


def test_topics_that_can_be_written_once() -> None:
    assert once_problem("orders", ()) is once_problem("", ("orders", "bills")) is None
    assert (once_problem("", ()) or "").startswith("topic is missing; ")
    for topic, topics in (("%RETRY%g", ()), ("", ("orders", "%RETRY%g"))):
        assert once_problem(topic, topics) == "topic %RETRY%g cannot be written once: brokers pass its messages on"
