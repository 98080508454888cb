"""Names of packages whose modules are loaded on demand."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

PACKAGES = ("apogeemq.client", "apogeemq.blocking")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_a_package_offers_is_there(package: str) -> None:
    module = importlib.import_module(package)
    assert module.__all__
    for name in module.__all__:
        assert getattr(module, name) is vars(module)[name], "found once, it stays"


@pytest.mark.parametrize("package", PACKAGES)
def test_all_names_at_once(package: str) -> None:
    found: dict[str, object] = {}
    exec(f"from {package} import *", found)
    assert found.keys() >= set(importlib.import_module(package).__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_name_it_does_not_offer(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'Consumr'"):
        importlib.import_module(package).Consumr  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'Consumr'"):
        exec(f"from {package} import Consumr")


def test_who_asks_for_one_class_loads_no_other() -> None:
    program = (
        "import sys; from apogeemq.client import PullConsumer;"
        "others = ('producing.producer', 'consuming.consumer');"
        "print([name for name in others if f'apogeemq.client.{name}' in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "[]"
