"""ACL 1.0 signatures, against values Apache's own classes give."""

from __future__ import annotations

import pytest

from apogeemq.protocol.signing import is_signed_with, sign, signed


def test_the_signature_of_apaches_own_test() -> None:
    assert sign({"any": "RocketMQ"}, b"", "12345678") == "IUc8rrO/0gDch8CjObLQsW2rsiA="  # AclSignerTest
    assert sign({}, b"RocketMQ", "12345678") == "IUc8rrO/0gDch8CjObLQsW2rsiA="


def test_a_request_is_signed_as_apaches_client_signs_it() -> None:
    fields = {"topic": "T1", "acceptStandardJsonOnly": "true", "SecurityToken": "token"}
    assert signed(fields, b"body", "AccessKey1", "secret-密") == {
        "topic": "T1",
        "acceptStandardJsonOnly": "true",
        "AccessKey": "AccessKey1",
        "SecurityToken": "token",
        "Signature": "ImS2vHq3s4uiXSNbaVjLtAoyEUE=",  # AclClientRPCHook of Apache 5.5.0
    }


def test_fields_are_taken_in_the_order_of_their_names() -> None:
    # Upper case sorts before lower case, as in Java's TreeMap.
    assert sign({"b": "2", "A": "1", "a": "3"}, b"", "k") == sign({}, b"132", "k")


def test_the_kind_of_a_query_is_not_signed() -> None:
    fields = signed({"key": "k", "_UNIQUE_KEY_QUERY": "true"}, b"", "someone", "secret")
    assert fields["_UNIQUE_KEY_QUERY"] == "true"
    assert fields["Signature"] == signed({"key": "k"}, b"", "someone", "secret")["Signature"]
    assert is_signed_with(fields, b"", "secret")


def test_a_signed_request_is_recognised() -> None:
    fields = signed({"topic": "T1"}, b"body", "key", "secret")
    assert is_signed_with(fields, b"body", "secret")


@pytest.mark.parametrize(
    ("change", "body", "secret"),
    [
        ({"topic": "T2"}, b"body", "secret"),
        ({"more": "x"}, b"body", "secret"),
        ({"AccessKey": "other"}, b"body", "secret"),
        ({"Signature": ""}, b"body", "secret"),
        ({"Signature": "é"}, b"body", "secret"),
        ({}, b"bodz", "secret"),
        ({}, b"body", "Secret"),
    ],
)
def test_any_change_breaks_the_signature(change: dict[str, str], body: bytes, secret: str) -> None:
    fields = signed({"topic": "T1"}, b"body", "key", "secret")
    assert not is_signed_with({**fields, **change}, body, secret)


def test_a_request_without_signature_is_not_signed() -> None:
    assert not is_signed_with({"topic": "T1"}, b"", "secret")
