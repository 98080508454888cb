"""The defaults are Apache's; options are values."""

from __future__ import annotations

import pytest

from apogeemq.client.options import ClientOptions, ConsumerOptions, ProducerOptions


def test_the_producer_is_set_as_the_java_one() -> None:
    options = ProducerOptions()
    assert (options.send_timeout_seconds, options.retries, options.retries_when_not_ok) == (3.0, 2, False)
    assert (options.compress_above, options.compression, options.compression_level) == (4096, "zlib", 5)
    assert (options.create_topic_key, options.default_topic_queues) == ("TBW102", 4)
    assert (options.max_message_size, options.max_in_flight) == (4 * 1024 * 1024, 50_000)
    assert not options.avoids_slow_brokers
    assert options.linger_seconds == 0


def test_the_consumer_is_set_as_the_java_one() -> None:
    options = ConsumerOptions()
    assert (options.start_from, options.rebalance, options.is_broadcasting) == ("last", "AVG", False)
    assert (options.pull_batch, options.suspend_ms, options.pull_timeout_seconds) == (32, 15_000, 30.0)
    assert options.max_cached_per_queue == 1000
    assert options.max_cached_bytes_per_queue == 100 * 1024 * 1024
    assert (options.max_span_per_queue, options.max_retries) == (2000, -1)
    assert (options.offset_persist_seconds, options.rebalance_seconds) == (5.0, 20.0)


def test_the_client_is_set_as_the_java_one() -> None:
    options = ClientOptions()
    assert (options.route_poll_seconds, options.heartbeat_seconds) == (30.0, 30.0)
    assert (options.request_timeout_seconds, options.connect_timeout_seconds) == (3.0, 3.0)
    assert not options.uses_vip_channel


@pytest.mark.parametrize("options", [ClientOptions(), ProducerOptions(), ConsumerOptions()])
def test_options_do_not_change(options: object) -> None:
    with pytest.raises(AttributeError):
        setattr(options, type(options).__struct_fields__[0], 1)  # type: ignore[attr-defined]
    assert options == type(options)()
