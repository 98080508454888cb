"""Every public name of the asyncio client has a twin, with the same parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from apogeemq import blocking, client
from apogeemq.client.answers import KnowsOffsets, PushedConsumer, TellsHowItIs
from apogeemq.client.instance import ConsumerMember, ProducerMember
from apogeemq.model.received import ReceivedMessage

# What the client's own parts ask of each other is no program's business.
MEMBERS = (ProducerMember, ConsumerMember, KnowsOffsets, TellsHowItIs, PushedConsumer)
FOR_THE_CLIENT = {name for member in MEMBERS for name in vars(member)} - {"group"}
FOR_THE_CLIENT |= {"settled_by", "unsettle", "direct_sends", "go_on", "run_target"}
SPECIAL = {"__aenter__": "__enter__", "__aexit__": "__exit__", "__aiter__": "__iter__", "__anext__": "__next__"}
CLASSES = [name for name in client.__all__ if inspect.isclass(getattr(client, name))]
MIRRORED = [name for name in CLASSES if any(map(inspect.iscoroutinefunction, vars(getattr(client, name)).values()))]


def members(of: type) -> dict[str, Any]:
    """Public ones, by the name of their twin."""
    found = {name: value for base in reversed(of.__mro__[:-1]) for name, value in vars(base).items()}
    dunder = {*SPECIAL, *SPECIAL.values()}
    wanted = {name: value for name, value in found.items() if name in dunder or not name.startswith("_")}
    return {SPECIAL.get(name, name): value for name, value in wanted.items() if name not in FOR_THE_CLIENT}


def parameters(function: Callable[..., object]) -> list[tuple[str, object, object, str]]:
    return [
        (name, parameter.kind, parameter.default, str(parameter.annotation))
        for name, parameter in inspect.signature(function).parameters.items()
    ]


def test_there_are_mirrored_classes() -> None:
    assert {"Producer", "Consumer", "ConsumedMessage"} <= set(MIRRORED)


def test_the_same_names_are_offered() -> None:
    assert set(blocking.__all__) == set(client.__all__)


@pytest.mark.parametrize("name", sorted(set(CLASSES) - set(MIRRORED)))
def test_what_is_not_mirrored_is_the_same(name: str) -> None:
    assert getattr(blocking, name) is getattr(client, name)


@pytest.mark.parametrize("name", MIRRORED)
def test_every_public_member_has_a_twin(name: str) -> None:
    ours, theirs = members(getattr(client, name)), members(getattr(blocking, name))
    assert set(ours) - set(theirs) == set()


def test_every_part_of_a_message_is_there() -> None:
    parts = set(inspect.signature(ReceivedMessage.__init__).parameters) - {"self", "encoded_properties"}
    assert parts - set(members(blocking.ConsumedMessage)) == set()


@pytest.mark.parametrize("name", MIRRORED)
def test_no_twin_is_asynchronous(name: str) -> None:
    found = members(getattr(blocking, name)).values()
    assert [value for value in found if inspect.iscoroutinefunction(value) or inspect.isasyncgenfunction(value)] == []


@pytest.mark.parametrize("name", MIRRORED)
def test_twins_take_the_same_parameters(name: str) -> None:
    asynchronous, twin = getattr(client, name), getattr(blocking, name)
    pairs = {**members(asynchronous), "__init__": asynchronous.__init__}
    if name == "ConsumedMessage":  # made by consumers alone
        del pairs["__init__"]
    different = {
        member: (parameters(function), parameters(getattr(twin, member)))
        for member, function in pairs.items()
        if inspect.isfunction(function) and hasattr(twin, member)
    }
    assert {member: pair for member, pair in different.items() if pair[0] != pair[1]} == {}


@pytest.mark.parametrize("name", MIRRORED)
def test_every_twin_says_what_it_does(name: str) -> None:
    functions = {name: value for name, value in members(getattr(blocking, name)).items() if inspect.isfunction(value)}
    assert [name for name, value in functions.items() if not name.startswith("__") and not value.__doc__] == []
