"""Pipeline files on the disk, and what lies beside them."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from zipfile import ZipFile

import pytest

from apogeemq.errors import ConfigError, PipelineInvalid
from apogeemq.spark.pipeline.reading import (
    find_pipeline,
    read_description,
    read_parameters,
    read_pipeline,
    ready_pipelines,
)

TEXT = """\
[pipeline]
name = "p"
description = "does it"
[sources.a]
format = "parquet"
path = "/x"
[steps.b]
python = "{}"
from = "a"
[sinks.s]
from = "b"
kind = "console"
"""


def test_modules_beside_the_file_are_found_without_running_them(tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text("raise SystemExit\ndef good(df): return df\nother = good\n")
    package = tmp_path / "pack" / "inner"
    package.mkdir(parents=True)
    (tmp_path / "pack" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("from elsewhere import borrowed\n")
    file = tmp_path / "p.toml"
    for step in ("steps:good", "steps:other", "pack.inner:borrowed", "apogeemq.spark.jobs.mirror:mirrored"):
        file.write_text(TEXT.format(step))
        assert read_pipeline(file).steps["b"].python == step
    for step, sentence in {
        "steps:god": r"steps\.py has no function god; did you mean good\?",
        "nowhere:good": r"there is no module nowhere in .*, on Python's path or in py_files",
        "pack.outer:good": r"there is no module pack\.outer",
        "steps.inner:good": r"there is no module steps\.inner",
    }.items():
        file.write_text(TEXT.format(step))
        with pytest.raises(PipelineInvalid, match=rf"p\.toml:8: steps\.b\.python: .*{sentence}"):
            read_pipeline(file)
    (tmp_path / "steps.py").write_text("def good(:\n")
    file.write_text(TEXT.format("steps:good"))
    with pytest.raises(PipelineInvalid, match="cannot be read"):
        read_pipeline(file)


def test_modules_of_files_for_executors_are_found(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "alone.py").write_text("def good(df): return df\n")
    with ZipFile(tmp_path / "lib" / "packed.zip", "w") as archive:
        archive.writestr("pack/__init__.py", "")
        archive.writestr("pack/inner.py", "def good(df): return df\n")
    file = tmp_path / "p.toml"
    text = TEXT.replace('name = "p"', 'name = "p"\npy_files = ["lib/alone.py", "lib/packed.zip"]')
    for step in ("alone:good", "pack.inner:good"):
        file.write_text(text.format(step))
        assert read_pipeline(file).steps["b"].python == step
    for step, sentence in {
        "alone:god": r"alone\.py has no function god; did you mean good\?",
        "alone.good:good": r"there is no module alone\.good",
        "pack.inner:god": r"packed\.zip/pack/inner\.py has no function god; did you mean good\?",
        "pack.outer:good": r"there is no module pack\.outer",
        "lib.alone:god": r"lib/alone\.py has no function god",
    }.items():
        file.write_text(text.format(step))
        with pytest.raises(PipelineInvalid, match=rf"p\.toml:9: steps\.b\.python: .*{sentence}"):
            read_pipeline(file)
    file.write_text(text.format("alone:good").replace("lib/alone.py", "nope.py").replace("lib/packed.zip", "lib"))
    with pytest.raises(PipelineInvalid) as raised:
        read_pipeline(file)
    assert [problem.partition("py_files: ")[2] for problem in raised.value.problems if ":3:" in problem] == [
        "lib is a folder",
        "there is no file nope.py",
    ]


def test_modules_are_looked_for_in_the_order_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the pipeline comes last, whatever lies in it."""
    (tmp_path / "statistics.py").write_text("def good(df): return df\n")
    file = tmp_path / "p.toml"
    file.write_text(TEXT.format("statistics:good"))
    with pytest.raises(PipelineInvalid, match=r"statistics\.py has no function good"):
        read_pipeline(file)
    early, late = tmp_path / "early", tmp_path / "late"
    for folder in (early, late):
        folder.mkdir()
    monkeypatch.syspath_prepend(early)
    (early / "steps").mkdir()  # a folder is a module only where there is no other
    (tmp_path / "steps.py").write_text("def good(df): return df\n")
    file.write_text(TEXT.format("steps:good"))
    assert read_pipeline(file).steps["b"].python == "steps:good"
    (late / "edited.py").write_text("def good(df): return df\n")

    class Finder(MetaPathFinder):
        """As installations that can be edited have one."""

        def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
            found = late / f"{fullname}.py"
            return spec_from_file_location(fullname, found) if found.exists() else None

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    file.write_text(TEXT.format("edited:good"))
    assert read_pipeline(file).steps["b"].python == "edited:good"
    file.write_text(TEXT.format("edited:god"))
    with pytest.raises(PipelineInvalid, match=r"edited\.py has no function god; did you mean good\?"):
        read_pipeline(file)


def test_names_that_no_file_can_have(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    for name, sentence in (("~nobody1/x", "No such file or directory"), ("a\\u0000b", "embedded null byte")):
        file.write_text(TEXT.format("x:y").replace('python = "x:y"\nfrom = "a"', f'sql_file = "{name}"'))
        with pytest.raises(PipelineInvalid, match=rf"p\.toml:8: steps\.b\.sql_file: cannot read .*: {sentence}"):
            read_pipeline(file)
    with pytest.raises(ConfigError, match="there is no pipeline file ~nobody1/x"):
        read_pipeline("~nobody1/x")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no pipeline file mirrr; did you mean mirror\?"):
        read_pipeline("mirrr")
    with pytest.raises(ConfigError, match="is a folder, not a pipeline file"):
        read_pipeline(tmp_path)
    (tmp_path / "p.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        read_pipeline(tmp_path / "p.toml")


def test_a_file_comes_before_a_ready_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_pipeline("mirror") == ready_pipelines()["mirror"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mirror").write_text(TEXT.format("steps:good"))
    assert find_pipeline("mirror") == Path("mirror")
    assert read_description("mirror") == "does it"


def test_a_file_may_begin_with_a_mark_of_its_encoding(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(TEXT.format("apogeemq.spark.jobs.mirror:mirrored"), encoding="utf-8-sig")
    assert read_pipeline(tmp_path / "p.toml").name == "p"


def test_what_needs_a_parameter_that_is_missing_is_not_said_to_be_wrong() -> None:
    with pytest.raises(PipelineInvalid) as raised:
        read_pipeline("mirror")
    assert [problem.partition("the parameter ")[2].partition(" ")[0] for problem in raised.value.problems] == [
        "to_name_server",
        "topics",
    ]


@pytest.mark.parametrize("name", sorted(ready_pipelines()))
def test_ready_pipelines_are_good(name: str) -> None:
    needed = [parameter.name for parameter in read_parameters(name).values() if parameter.default is None]
    spec = read_pipeline(name, {key: f"{key}:9876" if "server" in key else "x" for key in needed})
    assert spec.name == name
    assert read_description(name)
