"""Two that are measured in turn: who comes first changes, and every value goes to its own."""

from __future__ import annotations

from benchmarks.rows import Target
from benchmarks.settings import Settings
from benchmarks.spark.contenders import Topic
from benchmarks.spark.jobs import Answer
from benchmarks.spark.measuring import EFFICIENCY, RATE, alternated, figures, rows_of
from benchmarks.spark.process_tree import Cpu
from benchmarks.spark.sides import Result

SETTINGS = Settings(rounds=3, seconds=0.0, warm_up_s=0.0, quick=True)


def test_both_are_measured_in_turn() -> None:
    asked: list[str] = []

    def measure(name: str) -> dict[str, float]:
        asked.append(name)
        return {RATE: float(len(asked))}

    found = alternated(SETTINGS, lambda _: None, "a case", ("a", "b"), measure)
    assert asked == ["a", "b", "b", "a", "a", "b"]
    assert found == {RATE: ([1.0, 4.0, 5.0], [2.0, 3.0, 6.0])}


def test_a_row_has_the_ratio_of_the_medians_beside_its_target() -> None:
    (row,) = rows_of("a case", "Kafka", {RATE: Target(at_least=1.0)}, {RATE: ([1.0, 9.0, 4.0], [2.0, 2.0, 5.0])})
    assert (row.metric, row.ratio, row.met) == ("beside Kafka: rows per second", 2.0, True)


def test_cpu_of_java_and_python_counts() -> None:
    result = Result(Answer(rows=100, seconds=2.0), Cpu(java=1.0, python=3.0))
    assert figures(100, result) == {RATE: 50.0, EFFICIENCY: 25.0}


def test_topics_are_filled_evenly_by_whole_batches() -> None:
    assert Topic.of(200, 1_000_000).rows == 1_000_192
    assert Topic.of(200, 256 * 3).rows == 256 * 3
    assert Topic.of(200, 1_000, 64).rows == 2_048
