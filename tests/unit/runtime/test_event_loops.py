"""The event loop a process gets."""

from __future__ import annotations

import asyncio
import sys

import pytest

from apogeemq.runtime.event_loops import loop_factory


def test_uvloop_where_it_is_installed() -> None:
    uvloop = pytest.importorskip("uvloop")
    assert loop_factory() is uvloop.new_event_loop


def test_the_standard_one_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert loop_factory() is asyncio.new_event_loop
