"""Where our answers are meant to differ from Apache's, each with its reason. An entry that no longer differs fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.golden.steps import V4, V5

Deviations = Mapping[str, Sequence[tuple[str, str]]]
"""Reason → (scenario, step)."""

OURS: Deviations = {
    "a required header field that is missing is an error that names it; Apache goes on with null": [
        ("empty", "topics by cluster without a cluster"),
        ("empty", "wipe write permission of nobody"),
        ("empty", "add write permission of nobody"),
        ("empty", "delete no topic"),
        ("one-broker", "member group without names"),
        ("half-taken", "no name"),
        ("half-taken", "no address"),
        ("half-taken", "no cluster"),
        ("half-taken", "unregister without names"),
    ],
    "a registration is refused or taken as a whole; Apache leaves a broker without addresses behind": [
        ("half-taken", "cluster info after one topic"),
        ("half-taken", "cluster info after null topics"),
    ],
    "5.x brokers with compressedRegister send zlib without the flag, so ours looks at the first byte": [
        ("half-taken", "zlib without the flag"),
    ],
    "a configuration value that cannot be used is refused by name; Apache answers success and ignores it": [
        ("config", "update text that is no properties"),
        ("config", "update a number to text"),
    ],
}

BEFORE_5: Deviations = {
    "5.x reads a missing body as a data version of zeros": [("empty", "data version without a body")],
    "5.x takes a topic unknown for this broker at once; 4.9 waits for the next data version": [
        ("one-broker", "route of the new topic"),
        ("one-broker", "route of a topic no longer named"),
        ("one-broker", "wipe write permission"),
        ("one-broker", "add write permission"),
        ("one-broker", "wipe write permission of inherit"),
        ("one-broker", "add write permission to inherit"),
    ],
    "registering single topics came with 5.0": [
        ("one-broker", "route of the one topic"),
        ("one-broker", "route of the one topic, changed"),
        ("one-broker", "all topics at last"),
    ],
    "4.9 unregisters a broker by its id, whatever the address": [("one-broker", "member group is whole")],
    "4.9 keys live brokers by address alone, so null names pass": [("refused", "data version without names")],
    "5.x refuses a first registration with one topic": [("half-taken", "first registration with one topic")],
    "4.9 cannot read the attributes of a compressed 5.x topic": [
        ("formats", "compressed, 5.5.0"),
        ("formats", "route"),
        ("formats", "route, old client"),
        ("formats", "cluster info"),
        ("formats", "data version of the compressed one"),
    ],
    "4.9 ignores a slave's topics always": [
        ("slaves", "route through the only slave"),
        ("slaves", "route through the lower slave"),
    ],
    "returnOrderTopicConfigToBroker came with 5.0": [("order-conf-not-returned", "register")],
    "the black list came with 4.9.8 and 5.x; 4.9.7 guards two paths only": [
        ("config", "update a path"),
        ("config", "update a path beside another key"),
        ("config", "update the black list"),
        ("config", "update the home"),
        ("config", "get at last"),
    ],
}


def all_of(table: Deviations) -> set[tuple[str, str]]:
    return {step for steps in table.values() for step in steps}


def allowed(version: str) -> set[tuple[str, str]]:
    """Every (scenario, step) that may differ from Apache's `version`."""
    return all_of(OURS) | (all_of(BEFORE_5) if version == V4 else set())


def certain(version: str) -> set[tuple[str, str]]:
    """Those that must differ, or be taken off the table."""
    return all_of({V5: OURS, V4: BEFORE_5}[version])
