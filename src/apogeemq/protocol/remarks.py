"""Sentences of Apache's remarks that several parties say."""

from __future__ import annotations

from typing import Final

FAQ_HINT: Final = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
