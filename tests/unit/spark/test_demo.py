"""What the demonstration shows while its servers do not answer; all else takes a real Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from apogeemq.spark.demo import DEAD, ORDERS, REVENUE, Demonstration
from apogeemq.spark.demo_orders import OrderProducer, RevenueReader
from tests.peers.process import free_port


@pytest.fixture
def unanswered(tmp_path: Path) -> Demonstration:
    """By nobody."""
    address, demo = f"127.0.0.1:{free_port()}", Demonstration(tmp_path)
    demo._reader = RevenueReader(address, REVENUE)
    demo._orders = OrderProducer(address, ORDERS, per_second=1.0, seed=1)
    return demo


def test_a_question_that_is_not_answered_is_asked_again(unanswered: Demonstration) -> None:
    unanswered._reader.start()
    try:
        figures = [unanswered.figures(), unanswered.figures()]
    finally:
        unanswered._reader.close()
    for found in figures:
        assert [(topic.name, topic.messages) for topic in found.topics] == [(ORDERS, 0), (REVENUE, 0), (DEAD, 0)]
        assert found.dead == 0
