"""Names of tenants."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apogeemq.client.namespaces import with_namespace, without_namespace

NAMES = st.text("abcXYZ019-_|", min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("name", "wrapped"),
    [
        ("orders", "NS%orders"),
        ("%RETRY%billing", "%RETRY%NS%billing"),
        ("%DLQ%billing", "%DLQ%NS%billing"),
        ("NS%orders", "NS%orders"),
        ("%RETRY%NS%billing", "%RETRY%NS%billing"),
        ("NS2%orders", "NS%NS2%orders"),
        ("TBW102", "TBW102"),
        ("rmq_sys_x", "rmq_sys_x"),
        ("CID_RMQ_SYS_x", "CID_RMQ_SYS_x"),
        ("", ""),
    ],
)
def test_wrapping(name: str, wrapped: str) -> None:
    assert with_namespace(name, "NS") == wrapped


@pytest.mark.parametrize(
    ("name", "bare"),
    [("NS%orders", "orders"), ("%RETRY%NS%g", "%RETRY%g"), ("orders", "orders"), ("other%orders", "other%orders")],
)
def test_unwrapping(name: str, bare: str) -> None:
    assert without_namespace(name, "NS") == bare


@given(NAMES, st.sampled_from(["", "%RETRY%", "%DLQ%"]), NAMES)
def test_there_and_back(name: str, prefix: str, namespace: str) -> None:
    wrapped = with_namespace(prefix + name, namespace)
    assert without_namespace(wrapped, namespace) == prefix + name
    assert with_namespace(wrapped, namespace) == wrapped


@given(NAMES)
def test_without_a_namespace_names_stay(name: str) -> None:
    assert with_namespace(name, "") == name
    assert without_namespace(f"NS%{name}", "") == f"NS%{name}"
