"""How much of a topic a consumer pulls and deals with, and how fast, as tools ask for it. Pure; time is an argument."""

from __future__ import annotations

from collections import deque
from typing import Final

from apogeemq.protocol.bodies.consumers import ConsumeStatus

_STEP_MS: Final = 10_000
_STEPS_PER_MINUTE: Final = 6
_STEPS_PER_HOUR: Final = 360
_MINUTE_SECONDS: Final = 60


class _Step:
    """Sums of ten seconds."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pulls = 0
        self.pull_ms = 0
        self.pulled = 0
        self.consumed = 0
        self.failed = 0
        self.consume_ms = 0


class TopicFigures:
    """Of one topic, for the last hour. Time is monotonic."""

    def __init__(self) -> None:
        self._steps: deque[_Step] = deque(maxlen=_STEPS_PER_HOUR)
        self._last: _Step | None = None

    def pulled(self, monotonic_ms: int, took_ms: int, messages: int) -> None:
        step = self._step(monotonic_ms)
        step.pulls += 1
        step.pull_ms += took_ms
        step.pulled += messages

    def consumed(self, monotonic_ms: int, took_ms: int, *, has_failed: bool) -> None:
        step = self._step(monotonic_ms)
        step.consume_ms += took_ms
        if has_failed:
            step.failed += 1
        else:
            step.consumed += 1

    def status(self, monotonic_ms: int) -> ConsumeStatus:
        now = monotonic_ms // _STEP_MS
        hour = [step for step in self._steps if step.number > now - _STEPS_PER_HOUR]
        minute = [step for step in hour if step.number > now - _STEPS_PER_MINUTE]
        dealt_with = minute if any(step.consume_ms for step in minute) else hour
        return ConsumeStatus(
            pullRT=_average(sum(step.pull_ms for step in minute), sum(step.pulls for step in minute)),
            pullTPS=sum(step.pulled for step in minute) / _MINUTE_SECONDS,
            consumeRT=_average(
                sum(step.consume_ms for step in dealt_with), sum(step.consumed + step.failed for step in dealt_with)
            ),
            consumeOKTPS=sum(step.consumed for step in minute) / _MINUTE_SECONDS,
            consumeFailedTPS=sum(step.failed for step in minute) / _MINUTE_SECONDS,
            consumeFailedMsgs=sum(step.failed for step in hour),
        )

    def _step(self, monotonic_ms: int) -> _Step:
        number = monotonic_ms // _STEP_MS
        step = self._last
        if step is None or step.number != number:
            step = self._last = _Step(number)
            self._steps.append(step)
        return step


class Figures:
    """Of all topics of a consumer: it has few."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicFigures] = {}

    def of(self, topic: str) -> TopicFigures:
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = TopicFigures()
        return found


def _average(total: float, count: int) -> float:
    return total / count if count else 0.0
