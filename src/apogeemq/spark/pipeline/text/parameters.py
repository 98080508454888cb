"""`${name}` in the strings of a pipeline file: its `[params]`, what is given, and the environment. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from apogeemq.errors import ConfigError
from apogeemq.spark.pipeline.text.ordering import ordered
from apogeemq.spark.pipeline.text.problems import Path, Problems, hint

PARAMS: Final = "params"
MAX_VALUE: Final = 1 << 16  # characters; defaults that refer to defaults could go on growing

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


def values(
    parameters: Mapping[str, Parameter], given: Mapping[str, str], environment: Mapping[str, str], problems: Problems
) -> dict[str, str | None]:
    """What each is; None for one that needs what is missing or not declared, which is a problem.

    A default may refer to other parameters, and to the environment; what is given stays as it is.
    """
    for name in given.keys() - parameters.keys():
        problems.add((PARAMS,), f"there is no parameter {name}{hint(name, parameters)}")
    found = {name: given.get(name) for name in parameters}
    defaults: dict[str, str] = {}
    for name, parameter in parameters.items():
        if name not in given and parameter.default is not None:
            defaults[name] = parameter.default
        elif name not in given:
            what = f" ({parameter.help})" if parameter.help else ""
            problems.add((PARAMS, name), f"the parameter {name}{what} is not given: --param {name}=…")
    order = ordered({name: [other for other in _named(text) if other in defaults] for name, text in defaults.items()})
    for circle in order.circles:
        problems.add((PARAMS, circle[0]), f"parameters refer to each other in a circle: {' → '.join(circle)}")
    expansion = _Expansion(found, environment, problems)
    for name in order.names:
        text = expansion.text(defaults[name], (PARAMS, name))
        if text is not None and len(text) > MAX_VALUE:
            problems.add((PARAMS, name), f"params.{name}: its default is longer than {MAX_VALUE} characters")
        else:
            found[name] = text
    return found


def expanded(
    document: Any, values: Mapping[str, str | None], environment: Mapping[str, str], problems: Problems
) -> Any:
    """The document with every reference replaced; `$${` stands for `${`."""
    expansion = _Expansion(values, environment, problems)
    found = expansion.of(document, ())
    for path in expansion.unexpanded:  # now that all of them have been said: texts of one list have one place
        problems.hide(path)
    return found


def as_text(value: object) -> str:
    """As Spark's options want it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _named(text: str) -> list[str]:
    return [match[2].strip() for match in _REFERENCE.finditer(text) if not match[1]]


class _Expansion:
    def __init__(self, values: Mapping[str, str | None], environment: Mapping[str, str], problems: Problems) -> None:
        self._values = values
        self._environment = environment
        self._problems = problems
        self.unexpanded: list[Path] = []

    def of(self, value: Any, path: Path) -> Any:
        if isinstance(value, dict):
            return {key: self.of(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.of(item, path) for item in value]
        if not isinstance(value, str):
            return value
        text = self.text(value, path)
        if text is None:
            self.unexpanded.append(path)
        return value if text is None else text

    def text(self, text: str, path: Path) -> str | None:
        """None when it refers to what is missing."""
        parts = {match[0]: self._replacement(match, path) for match in _REFERENCE.finditer(text)}
        if None in parts.values():
            return None
        return _REFERENCE.sub(lambda match: parts[match[0]] or "", text)

    def _replacement(self, match: re.Match[str], path: Path) -> str | None:
        escape, name = match[1], match[2].strip()
        if escape:
            return "${" + match[2] + "}"
        if name.startswith(_ENVIRONMENT):
            variable = name.removeprefix(_ENVIRONMENT)
            if variable not in self._environment:
                self._problems.add(path, f"{'.'.join(path)}: the environment variable {variable} is not set")
            return self._environment.get(variable)
        if name not in self._values:
            self._problems.add(
                path, f"{'.'.join(path)}: there is no parameter {name} in [params]{hint(name, self._values)}"
            )
        return self._values.get(name)
