"""Python steps and what goes wrong in them. Views themselves are tested with Spark."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from apogeemq.errors import ConfigError
from apogeemq.spark.pipeline.spec import Step
from apogeemq.spark.pipeline.views import python_view

MODULE = """\
from apogeemq.errors import NoNameServer

VALUE = 5

class Frame:
    def __init__(self, rows):
        self.rows = rows
    def createOrReplaceTempView(self, name):
        pass

def first(rows, limit=1):
    return Frame(rows[:limit])

def plain(rows):
    return rows

def unreachable(rows):
    raise NoNameServer("no name server answered")

def silent(rows):
    assert not rows
"""


@pytest.fixture
def file(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "given_steps.py").write_text(MODULE)
    (tmp_path / "broken_steps.py").write_text("limit = {}['limit']\n")
    (tmp_path / "unread_steps.py").write_text("def first(:\n")
    path, modules = list(sys.path), set(sys.modules)
    yield str(tmp_path / "pipeline.toml")
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def made(file: str, python: str, **options: object) -> Any:
    views = {"rows": ["a", "b", "c"]}
    step = Step(name="few", python=python, inputs=("rows",), options=options)
    return python_view(step, file, lambda view: cast(Any, views[view]))


def test_a_function_gets_its_views_and_options(file: str) -> None:
    assert made(file, "given_steps:first", limit=2).rows == ["a", "b"]


@pytest.mark.parametrize(
    ("python", "options", "cause"),
    [
        ("given_steps:first", {"limt": 2}, "TypeError: first() got an unexpected keyword argument 'limt'"),
        ("given_steps:absent", {}, "AttributeError: module 'given_steps' has no attribute 'absent'"),
        ("given_steps:VALUE", {}, "TypeError: 'int' object is not callable"),
        ("given_steps:unreachable", {}, "NoNameServer: no name server answered"),
        ("given_steps:silent", {}, "AssertionError"),
        ("absent_steps:first", {}, "ModuleNotFoundError: No module named 'absent_steps'"),
        ("broken_steps:first", {}, "KeyError: 'limit'"),
        ("unread_steps:first", {}, "SyntaxError: invalid syntax (unread_steps.py, line 1)"),
    ],
)
def test_whatever_goes_wrong_in_a_step_is_said_with_its_name(
    file: str, python: str, options: dict[str, object], cause: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(f'steps.few: {python}: {cause}')}$"):
        made(file, python, **options)


def test_what_is_no_data_frame_is_refused(file: str) -> None:
    with pytest.raises(ConfigError, match=r"steps\.few: given_steps:plain gave list, not a DataFrame"):
        made(file, "given_steps:plain")
