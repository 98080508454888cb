"""Where our broker's answers are meant to differ from Apache's, each with its reason.

An entry that no longer differs fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Deviations = Mapping[str, Sequence[tuple[str, str]]]
"""Reason → (scenario, step)."""

OURS: Deviations = {
    "a message of a batch must have the size it claims; Apache does not look": [
        ("lying-sizes", "size too large"),
        ("lying-sizes", "size too small"),
        ("lying-sizes", "size zero"),
        ("lying-sizes", "size negative"),
        ("lying-sizes", "second one lies"),
        ("lying-sizes", "how many"),
    ],
    "a batch that asks for a delay is told that this is what is wrong": [
        ("lying-batches", "batch with a delay"),
    ],
    "the most bytes that a client wants is kept to; Apache's broker does not look": [
        ("pulling", "few bytes"),
        ("pulling", "some bytes"),
    ],
    "a required header field that is missing is an error that names it; Apache goes on with null": [
        ("group-offsets", "query without consumerGroup"),
    ],
    "a client needs a name": [
        ("odd-heartbeats", "no id"),
    ],
    "null instead of a list is an empty list; Apache falls over": [
        ("odd-heartbeats", "sets that are null"),
        ("odd-heartbeats", "subscriptions null"),
    ],
    "a client that leaves out a subscription never told is asked for it": [
        ("odd-heartbeats", "second form, a stranger without subscription"),
    ],
    "a lock needs an owner: without one the request is refused, not answered as if another had it": [
        ("locks", "lock an empty object"),
        ("locks", "lock without a client"),
    ],
}


def all_of(table: Deviations) -> set[tuple[str, str]]:
    return {step for steps in table.values() for step in steps}
