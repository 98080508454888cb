"""Sample orders are sent also by whoever has only just started the servers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from apogeemq.blocking import PullConsumer, PullOptions
from apogeemq.spark.jobs.send_samples import COUNT, TOPIC, send_orders
from tests.peers.ours import Broker, NameServer
from tests.peers.process import free_port


def test_it_waits_for_servers_that_are_about_to_start(tmp_path: Path) -> None:
    name_server = NameServer(work_dir=tmp_path / "names", port=free_port())
    with ThreadPoolExecutor(1) as thread:
        sending = thread.submit(send_orders, name_server.address)
        with name_server, Broker(name_server.address, work_dir=tmp_path / "broker"):
            assert sending.result() == COUNT + 1
            with PullConsumer(name_server.address, "look", options=PullOptions(joins_group=False)) as consumer:
                queues = consumer.fetch_queues(TOPIC)
                assert sum(consumer.max_offset(queue) for queue in queues) == COUNT + 1
