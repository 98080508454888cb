"""How long and how often to measure."""

from __future__ import annotations

from typing import NamedTuple


class Settings(NamedTuple):
    """Rounds per case and seconds per round; `warm_up_s` is the least time a server is loaded before it counts."""

    rounds: int
    seconds: float
    warm_up_s: float
    quick: bool


FULL = Settings(rounds=9, seconds=2.0, warm_up_s=20.0, quick=False)
QUICK = Settings(rounds=3, seconds=1.0, warm_up_s=8.0, quick=True)
