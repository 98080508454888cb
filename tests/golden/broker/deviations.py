"""Where our broker's answers are meant to differ from Apache's, each with its reason. An entry that no longer differs
fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Deviations = Mapping[str, Sequence[tuple[str, str]]]
"""Reason → (scenario, step)."""

OURS: Deviations = {}


def all_of(table: Deviations) -> set[tuple[str, str]]:
    return {step for steps in table.values() for step in steps}
