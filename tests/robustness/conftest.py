"""One server per module, and after every attack on it the same questions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.ours import NameServer
from tests.robustness.attacked import MIB, Attacked

MOST_GROWTH = 256 * MIB
"""At the peak of any one attack: the largest inflated body is 64 MiB, and it is read while it is held twice."""


@pytest.fixture(scope="module")
def properties() -> dict[str, str]:
    """Of the server's configuration; a module may give its own."""
    return {}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, properties: dict[str, str]) -> Iterator[Attacked]:
    folder: Path = tmp_path_factory.mktemp("namesrv")
    config_file = folder / "namesrv.conf"
    config_file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    attacked = Attacked(NameServer(work_dir=folder, args=("-c", str(config_file), "--http-port", "0")))
    with attacked.server:
        yield attacked


@pytest.fixture
def attacked(running: Attacked) -> Iterator[Attacked]:
    """The module's server: alive, bounded and serving others all through the test."""
    running.page("/metrics")  # the first one loads a library
    before = running.memory()
    running.reset_peak()
    with running.serving_others():
        yield running
    assert running.server.is_running()
    assert running.memory("VmHWM") - before < MOST_GROWTH
    assert "Traceback" not in running.server.output()
