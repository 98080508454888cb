"""Pipeline files as texts, for tests of what they become and of what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from apogeemq.errors import PipelineInvalid
from apogeemq.spark.pipeline.spec import PipelineSpec
from apogeemq.spark.pipeline.text.parsing import parse_pipeline


class Files:
    """What is around a pipeline file, as values."""

    environment: Mapping[str, str] = {"SECRET": "hush"}

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        self._files = files or {}

    def path_of(self, name: str) -> str:
        return f"/folder/{name}"

    def read(self, name: str) -> bytes:
        if name not in self._files:
            raise FileNotFoundError(2, "No such file or directory")
        return self._files[name]

    def file_problem(self, name: str) -> str | None:
        return None if name in self._files else f"there is no file {name}"

    def function_problem(self, module: str, function: str, py_files: Sequence[str]) -> str | None:
        return None if module == "steps" else f"there is no module {module}"


def parse(text: str, files: Mapping[str, bytes] | None = None, **given: str) -> PipelineSpec:
    return parse_pipeline(text, "p.toml", given, Files(files))


def problems(text: str, files: Mapping[str, bytes] | None = None, **given: str) -> list[str]:
    with pytest.raises(PipelineInvalid) as raised:
        parse(text, files, **given)
    assert str(raised.value).count("\n") == len(raised.value.problems)
    return [problem.removeprefix("p.toml:") for problem in raised.value.problems]


def with_part(part: str) -> str:
    """A good small file and something at its end, from line 8 on."""
    return (
        '[pipeline]\nname = "p"\n[sources.a]\nformat = "rocketmq"\n'
        '[sources.a.options]\nnameServer = "h:1"\nsubscribe = "t"\n' + part
    )


TABLE = '[sources.k]\nformat = "json"\npath = "k"\nschema = "x INT"\n'
SINK = '[sinks.s]\nfrom = "a"\nkind = "console"\n'
