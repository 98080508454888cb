"""What tests of the name server share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.nameserver.live import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "namesrv")
