"""How often an idle stream asks."""

from __future__ import annotations

import pytest

from apogeemq.spark.idle_pause import IdlePause


class Time:
    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 6))
        self.now += seconds


@pytest.fixture
def moment() -> Time:
    return Time()


@pytest.fixture
def pause(moment: Time) -> IdlePause:
    return IdlePause(lambda: moment.now, moment.sleep)


def ask(pause: IdlePause, moment: Time, start: object, took: float = 0.0, before: float = 0.0) -> None:
    moment.now += before
    with pause.around(start):
        moment.now += took


def test_a_stream_that_goes_on_does_not_wait(pause: IdlePause, moment: Time) -> None:
    for start in range(10):
        ask(pause, moment, start, took=0.01)
    assert moment.slept == []


def test_the_longer_nothing_comes_the_longer_it_waits(pause: IdlePause, moment: Time) -> None:
    while moment.now < 130:
        ask(pause, moment, "same")
    assert moment.slept == sorted(moment.slept)
    assert (moment.slept[0], moment.slept[-1]) == (0.02, 0.2)
    assert moment.slept[:40] == [0.02] * 40  # the first second is as if it were busy
    ask(pause, moment, "new")
    ask(pause, moment, "new")
    assert moment.slept[-1] == 0.02


def test_it_waits_from_the_last_answer_on(pause: IdlePause, moment: Time) -> None:
    ask(pause, moment, "same", took=0.5)  # of very many queues
    ask(pause, moment, "same", took=0.4)
    assert moment.slept == [0.02]
    ask(pause, moment, "same", before=0.015)  # Spark waits, too
    assert moment.slept == [0.02, 0.005]


def test_it_keeps_no_other_source_waiting_that_has_batches(pause: IdlePause, moment: Time) -> None:
    for _ in range(400):
        ask(pause, moment, "same", before=0.01)
    assert moment.slept[-1] > 0.05
    slept = len(moment.slept)
    for _ in range(400):
        ask(pause, moment, "same", before=0.06)
    assert len(moment.slept) == slept
    ask(pause, moment, "same", before=0.01)
    assert moment.slept[-1] == 0.01  # and begins anew when they end
