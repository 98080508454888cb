"""Pipeline files on the disk: found by path or by the name of a ready pipeline, read, and checked without Spark."""

from __future__ import annotations

import ast
import os
import sys
import tomllib
from collections.abc import Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

from apogeemq.errors import ConfigError
from apogeemq.spark.pipeline.spec import PipelineSpec
from apogeemq.spark.pipeline.text.parameters import Parameter
from apogeemq.spark.pipeline.text.parsing import declared_parameters, parse_pipeline
from apogeemq.spark.pipeline.text.problems import hint

READY_FOLDER: Final = Path(__file__).parent.parent / "jobs"


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
    file = Path(path).expanduser()
    if file.is_file():
        return file
    ready = ready_pipelines()
    if str(path) in ready:
        return ready[str(path)]
    raise ConfigError(f"there is no pipeline file {path}{hint(str(path), ready)}")


def ready_pipelines() -> dict[str, Path]:
    """Those that come with the package, by name."""
    return {file.stem: file for file in sorted(READY_FOLDER.glob("*.toml"))}


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
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
        return str(self._folder / Path(name).expanduser())

    def read(self, name: str) -> bytes:
        return Path(self.path_of(name)).read_bytes()

    def function_problem(self, module: str, function: str) -> str | None:
        """Found without running any of the module."""
        source = _source_of(module, [str(self._folder), *sys.path])
        if source is None:
            return f"there is no module {module} in {self._folder} or on Python's path"
        if not source.endswith(".py"):
            return None
        try:
            names = _names_defined(ast.parse(Path(source).read_bytes()))
        except (OSError, SyntaxError, ValueError) as error:
            return f"{source} cannot be read: {error}"
        return None if function in names else f"{source} has no function {function}{hint(function, names)}"


def _source_of(module: str, folders: list[str]) -> str | None:
    search: list[str] | None = folders
    found = None
    for part in module.split("."):
        if search is None:
            return None
        found = PathFinder.find_spec(part, search)
        if found is None:
            return None
        locations = found.submodule_search_locations
        search = list(locations) if locations is not None else None
    return found.origin or "" if found is not None else None


def _names_defined(module: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in module.body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return names
