"""Pipeline files on the disk: found by path or by the name of a ready pipeline, read, and checked without Spark."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from importlib.abc import FileLoader
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Final
from zipimport import zipimporter

from apogeemq.errors import ConfigError
from apogeemq.spark.pipeline.spec import PipelineSpec
from apogeemq.spark.pipeline.text.parameters import Parameter
from apogeemq.spark.pipeline.text.parsing import declared_parameters, parse_pipeline
from apogeemq.spark.pipeline.text.problems import hint
from apogeemq.spark.pipeline.text.python_names import names_defined

READY_FOLDER: Final = Path(__file__).parent.parent / "jobs"

_ARCHIVES: Final = (".zip", ".egg", ".jar")  # as Spark knows them


def read_pipeline(
    path: Path | str, params: Mapping[str, str] | None = None, *, environment: Mapping[str, str] | None = None
) -> PipelineSpec:
    """The pipeline of a file, or the ready one of that name. PipelineInvalid with everything that is wrong with it."""
    file = find_pipeline(path)
    surroundings = FolderOf(file, os.environ if environment is None else environment)
    return parse_pipeline(_text_of(file), str(file), params or {}, surroundings)


def read_parameters(path: Path | str) -> dict[str, Parameter]:
    file = find_pipeline(path)
    return declared_parameters(_text_of(file), str(file))


def read_description(path: Path | str) -> str:
    """What a pipeline does, in its own words; of a file that cannot be read, nothing."""
    try:
        head = tomllib.loads(_text_of(find_pipeline(path))).get("pipeline")
    except (ConfigError, tomllib.TOMLDecodeError):
        return ""
    return str(head.get("description", "")) if isinstance(head, dict) else ""


def find_pipeline(path: Path | str) -> Path:
    """ConfigError when there is neither such a file nor a ready pipeline of that name."""
    file = _expanded(path)
    if file.is_file():
        return file
    ready = ready_pipelines()
    if str(path) in ready:
        return ready[str(path)]
    if file.is_dir():
        raise ConfigError(f"{path} is a folder, not a pipeline file")
    raise ConfigError(f"there is no pipeline file {path}{hint(str(path), ready)}")


def ready_pipelines() -> dict[str, Path]:
    """Those that come with the package, by name."""
    return {file.stem: file for file in sorted(READY_FOLDER.glob("*.toml"))}


def _expanded(path: Path | str) -> Path:
    """With the home folder of whoever has one."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")  # editors of Windows put a mark at the beginning
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8 text: {error}") from None


class FolderOf:
    """What a pipeline file refers to: names are relative to its folder, modules are found there too."""

    def __init__(self, file: Path, environment: Mapping[str, str]) -> None:
        self._folder = file.absolute().parent
        self._environment = environment

    @property
    def environment(self) -> Mapping[str, str]:
        return self._environment

    def path_of(self, name: str) -> str:
        return str(self._folder / _expanded(name))

    def read(self, name: str) -> bytes:
        try:
            return Path(self.path_of(name)).read_bytes()
        except ValueError as error:  # no file can have this name
            raise OSError(str(error)) from None

    def file_problem(self, name: str) -> str | None:
        path = Path(self.path_of(name))
        if path.is_file():
            return None
        return f"{name} is a folder" if path.is_dir() else f"there is no file {name}"

    def function_problem(self, module: str, function: str, py_files: Sequence[str]) -> str | None:
        """Found without running any of the module."""
        spec = _spec_of(module, str(self._folder), py_files)
        if spec is None:
            return f"there is no module {module} in {self._folder}, on Python's path or in py_files"
        source = spec.origin or ""
        if not source.endswith(".py") or not isinstance(spec.loader, FileLoader | zipimporter):
            return None
        try:
            names = names_defined(spec.loader.get_data(source))
        except (OSError, SyntaxError, ValueError, RecursionError) as error:
            return f"{source} cannot be read: {error}"
        return (
            None
            if names is None or function in names
            else f"{source} has no function {function}{hint(function, names)}"
        )


def _spec_of(module: str, folder: str, py_files: Sequence[str]) -> ModuleSpec | None:
    top, *parts = module.split(".")
    found = _top_spec(top, folder, py_files)
    for part in parts:
        search = found.submodule_search_locations if found is not None else None
        found = PathFinder.find_spec(part, list(search)) if search is not None else None
    return found


def _top_spec(name: str, folder: str, py_files: Sequence[str]) -> ModuleSpec | None:
    """Where a run finds it: Spark puts archives before Python's path and files of Python behind it, and the pipeline's
    folder comes last. What was installed to be edited has a finder of its own."""
    path = [*(file for file in py_files if file.lower().endswith(_ARCHIVES)), *sys.path]
    found = PathFinder.find_spec(name, path)
    if found is not None and found.loader is not None:  # not just a folder of this name
        return found
    for file in map(Path, py_files):
        if file.suffix == ".py" and file.stem == name:
            return spec_from_file_location(name, file)
    found = PathFinder.find_spec(name, [*path, folder])
    others = (finder for finder in sys.meta_path if finder is not PathFinder)
    return found or next(filter(None, (finder.find_spec(name, None) for finder in others)), None)
