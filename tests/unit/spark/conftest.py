"""Tests of Spark's parts use what a driver keeps, and leave nothing of it to others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kept_clients import end_kept_clients


@pytest.fixture(scope="module", autouse=True)
def own_clients() -> Iterator[None]:
    yield
    end_kept_clients()
