"""`${name}` in the strings of a pipeline file: its `[params]`, what is given, and the environment. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from apogeemq.errors import ConfigError
from apogeemq.spark.pipeline.text.problems import Path, Problems, hint

PARAMS: Final = "params"

_REFERENCE: Final = re.compile(r"\$(\$?)\{([^{}]*)\}")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_ENVIRONMENT: Final = "env:"
_KEYS: Final = ("default", "help")


class Parameter(msgspec.Struct, frozen=True):
    name: str
    default: str | None = None  # None: it has to be given
    help: str = ""


def given_parameters(texts: Iterable[str]) -> dict[str, str]:
    """Those of a command line, NAME=VALUE each."""
    found: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            raise ConfigError(f"--param {text!r}: expected NAME=VALUE")
        found[name.strip()] = value
    return found


def declared(table: object, problems: Problems) -> dict[str, Parameter]:
    """The `[params]` table: a default, or a table of `default` and `help`."""
    if not isinstance(table, dict):
        if table is not None:
            problems.add((PARAMS,), "params: expected a table")
        return {}
    found: dict[str, Parameter] = {}
    for name, value in table.items():
        if not _NAME.fullmatch(name):
            problems.add((PARAMS, name), f"params.{name}: a name is made of letters, digits, - and _")
        if isinstance(value, dict):
            for key in value.keys() - set(_KEYS):
                problems.add((PARAMS, name, key), f"params.{name}: unknown key {key}{hint(key, _KEYS)}")
            default = value.get("default")
            found[name] = Parameter(name, None if default is None else as_text(default), str(value.get("help", "")))
        elif isinstance(value, list):
            problems.add((PARAMS, name), f"params.{name}: expected a text, a number or true/false")
        else:
            found[name] = Parameter(name, as_text(value))
    return found


def values(parameters: Mapping[str, Parameter], given: Mapping[str, str], problems: Problems) -> dict[str, str]:
    """What each is; what is missing or not declared is a problem. A default may refer to another parameter."""
    for name in given.keys() - parameters.keys():
        problems.add((PARAMS,), f"there is no parameter {name}{hint(name, parameters)}")
    result: dict[str, str] = {}
    for name, parameter in parameters.items():
        value = given.get(name, parameter.default)
        if value is None:
            what = f" ({parameter.help})" if parameter.help else ""
            problems.add((PARAMS, name), f"the parameter {name}{what} is not given: --param {name}=…")
            value = f"<{name}>"  # so that what follows from it is not said as well
        result[name] = value
    defaults = {name: value for name, value in result.items() if name not in given}
    return {**result, **_Expansion(result, {}, problems).of(defaults, (PARAMS,))}


def expanded(document: Any, values: Mapping[str, str], environment: Mapping[str, str], problems: Problems) -> Any:
    """The document with every reference replaced; `$${` stands for `${`."""
    return _Expansion(values, environment, problems).of(document, ())


def as_text(value: object) -> str:
    """As Spark's options want it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class _Expansion:
    def __init__(self, values: Mapping[str, str], environment: Mapping[str, str], problems: Problems) -> None:
        self._values = values
        self._environment = environment
        self._problems = problems

    def of(self, value: Any, path: Path) -> Any:
        if isinstance(value, dict):
            return {key: self.of(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.of(item, path) for item in value]
        if isinstance(value, str):
            return _REFERENCE.sub(lambda match: self._replacement(match, path), value)
        return value

    def _replacement(self, match: re.Match[str], path: Path) -> str:
        escape, name = match[1], match[2].strip()
        if escape:
            return "${" + match[2] + "}"
        if name.startswith(_ENVIRONMENT):
            variable = name.removeprefix(_ENVIRONMENT)
            if variable not in self._environment:
                self._problems.add(path, f"{'.'.join(path)}: the environment variable {variable} is not set")
            return self._environment.get(variable, "")
        if name not in self._values:
            self._problems.add(
                path, f"{'.'.join(path)}: there is no parameter {name} in [params]{hint(name, self._values)}"
            )
        return self._values.get(name, "")
