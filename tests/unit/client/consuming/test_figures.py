"""Rates and averages of what a consumer does."""

from __future__ import annotations

import pytest

from apogeemq.client.consuming.figures import Figures, TopicFigures
from apogeemq.protocol.bodies.consumers import ConsumeStatus

NOW = 1_000_000_000


def test_nothing_yet() -> None:
    assert TopicFigures().status(NOW) == ConsumeStatus()


def test_the_last_minute() -> None:
    figures = TopicFigures()
    figures.pulled(NOW, took_ms=10, messages=32)
    figures.pulled(NOW + 1, took_ms=30, messages=28)
    for took_ms in (5, 15):
        figures.consumed(NOW + 2, took_ms, has_failed=False)
    figures.consumed(NOW + 3, 40, has_failed=True)
    status = figures.status(NOW + 1000)
    assert (status.pullRT, status.pullTPS) == (20.0, 1.0)
    assert status.consumeRT == 20.0
    assert status.consumeOKTPS == pytest.approx(2 / 60)
    assert status.consumeFailedTPS == pytest.approx(1 / 60)
    assert status.consumeFailedMsgs == 1


def test_what_is_older_counts_no_more_but_failures_of_the_hour() -> None:
    figures = TopicFigures()
    figures.pulled(NOW, 10, 5)
    figures.consumed(NOW, 7, has_failed=True)
    later = figures.status(NOW + 70_000)
    assert (later.pullRT, later.pullTPS, later.consumeFailedTPS) == (0.0, 0.0, 0.0)
    assert (later.consumeFailedMsgs, later.consumeRT) == (1, 7.0)  # of the hour, when the minute knows none
    assert figures.status(NOW + 3_700_000) == ConsumeStatus()


def test_no_more_is_kept_than_an_hour() -> None:
    figures = TopicFigures()
    for step in range(1000):
        figures.consumed(NOW + step * 10_000, 1, has_failed=True)
    assert len(figures._steps) == 360
    assert figures.status(NOW + 999 * 10_000).consumeFailedMsgs == 360


def test_topics_have_figures_of_their_own() -> None:
    figures = Figures()
    figures.of("T").consumed(NOW, 1, has_failed=True)
    assert figures.of("T").status(NOW).consumeFailedMsgs == 1
    assert figures.of("U").status(NOW).consumeFailedMsgs == 0
