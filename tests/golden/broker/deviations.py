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
        ("odd-offsets", "reset without a time"),
        ("odd-offsets", "reset without a group"),
        ("odd-offsets", "clone without a destination"),
        ("topic-status", "time span without a group"),
        ("topic-status", "stats data without a key"),
    ],
    "an offset or a queue that cannot be is refused; Apache keeps it, and clients fall over it": [
        ("odd-offsets", "update to a negative"),
        ("odd-offsets", "update of a negative queue"),
        ("odd-offsets", "of a negative queue after all"),
        ("odd-offsets", "reset of a queue out of range"),
        ("odd-offsets", "all offsets"),
        ("odd-offsets", "corrected offsets, one group left out"),
    ],
    "asking for corrected offsets changes nothing; Apache forgets the offsets of the groups left out": [
        ("odd-offsets", "all offsets are still there"),
    ],
    "numbers of a topic or group that mean nothing are refused; Apache keeps them": [
        ("odd-topics", "negative queues"),
        ("odd-topics", "negative as created"),
        ("odd-topics", "a million queues"),
        ("odd-topics", "perm 99"),
        ("odd-topics", "perm 99 as created"),
        ("odd-topics", "negative perm"),
        ("odd-groups", "negative retry queues"),
    ],
    "a deleted group is gone; 5.5.0 makes it again while it asks what kind of group it was": [
        ("odd-groups", "all groups"),
    ],
    "a configuration value that cannot be used is refused by name; Apache answers success and ignores it": [
        ("broker", "update a number to text"),
        ("broker", "update text that is no properties"),
    ],
    "the store does not move while the broker runs": [
        ("broker", "update the store's path"),
    ],
    "a whole number may be written with a fraction of zero": [
        ("refused-sends", "queue with a fraction"),
    ],
    "a queue without a topic is one of the empty topic": [
        ("locks", "lock a queue without a topic"),
    ],
    "a group for which nothing is forbidden is not listed among the forbidden": [
        ("groups", "all groups at last"),
    ],
    "half messages come with transactions": [
        ("broker", "a half message that is none"),
        ("broker", "a half message without an id"),
        ("broker", "a half message by no id"),
    ],
    "a header without a code is no header": [
        ("unknown", "no code"),
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
