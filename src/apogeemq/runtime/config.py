"""Java `.properties` from and to a typed struct: camelCase keys outside, snake_case names inside.

A configuration is a `msgspec.Struct` with `rename="camel"` whose fields are `bool`, `str` or `int` (bounded with
`msgspec.Meta`). Its defaults are the program's defaults; `load` puts the keys that were given over them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, TypeVar, get_args, get_origin

import msgspec

from apogeemq.errors import ConfigError

ConfigT = TypeVar("ConfigT", bound=msgspec.Struct)

INT32_MIN: Final = -(2**31)
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

Count = Annotated[int, msgspec.Meta(ge=0, le=INT32_MAX)]
AtLeastOne = Annotated[int, msgspec.Meta(ge=1, le=INT32_MAX)]
LongCount = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
Percent = Annotated[int, msgspec.Meta(ge=0, le=100)]
Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
PortOrOff = Annotated[int, msgspec.Meta(ge=-1, le=65_535)]
ByteSize = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
FrameSize = Annotated[int, msgspec.Meta(ge=4096, le=INT32_MAX)]

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_TRUTH = {"true": True, "false": False}


def parse_properties(text: str) -> dict[str, str]:
    """The keys and values of `.properties` text; ConfigError when it is not that."""
    import javaproperties  # 10 MB of memory: only a process that reads such text pays for it

    try:
        return dict(javaproperties.loads(text))
    except ValueError as error:  # the only malformed text there is: a bad \u escape
        raise ConfigError(f"not a properties file: {error}") from None


def edit_properties(text: str, changes: Mapping[str, str]) -> str:
    """`.properties` text with some values set, and its comments, order and other keys as they were."""
    import javaproperties

    try:
        document = javaproperties.PropertiesFile.loads(text)
    except ValueError as error:
        raise ConfigError(f"not a properties file: {error}") from None
    for key, value in changes.items():
        document[key] = value
    return str(document.dumps())


def load(config_type: type[ConfigT], properties: Mapping[str, str]) -> tuple[ConfigT, list[str]]:
    """The configuration and one warning per unknown key.

    What is not given is the type's default. ConfigError names a key whose value is of the wrong type.
    """
    config = config_type()
    return config, apply(config, properties)


def apply(config: msgspec.Struct, properties: Mapping[str, str]) -> list[str]:
    """Set what is given; on ConfigError nothing has been set. Gives one warning per unknown key."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(type(config))}
    values: dict[str, Any] = {}
    warnings: list[str] = []
    for key, text in properties.items():
        field = fields.get(key)
        if field is None:
            warnings.append(unknown_key_warning(key, fields))
        else:
            values[field.name] = _parse(key, text, field.type)
    for name, value in values.items():
        setattr(config, name, value)
    return warnings


def known_keys(config_type: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(field.encode_name for field in msgspec.structs.fields(config_type))


def unknown_key_warning(key: str, known: Iterable[str]) -> str:
    """Names the key and the nearest known one: most unknown keys are slips of the pen."""
    from difflib import get_close_matches

    by_lower_case = {name.lower(): name for name in known}
    nearest = get_close_matches(key.lower(), by_lower_case, n=1, cutoff=0.0)
    hint = f"; the nearest known key is {by_lower_case[nearest[0]]}" if nearest else ""
    return f"unknown key {key} is ignored{hint}"


def to_mapping(config: msgspec.Struct) -> dict[str, str]:
    """Keys and values as text, sorted by key."""
    pairs = {field.encode_name: _text(getattr(config, field.name)) for field in msgspec.structs.fields(type(config))}
    return dict(sorted(pairs.items()))


def to_properties(config: msgspec.Struct, extra: Mapping[str, str] | None = None) -> str:
    """Sorted `key=value` lines, values plain (not escaped), as Apache's servers show their configuration."""
    pairs = {**(extra or {}), **to_mapping(config)}
    return "".join(f"{key}={value}\n" for key, value in sorted(pairs.items()))


def _text(value: bool | int | str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _parse(key: str, text: str, wanted: Any) -> bool | int | str:
    if wanted is str:
        return text
    if wanted is bool:
        truth = _TRUTH.get(text.strip().lower())
        if truth is None:
            raise ConfigError(f"{key}={text}: expected true or false")
        return truth
    least, most = _bounds(wanted)
    word = text.strip()
    if not _WHOLE_NUMBER.fullmatch(word) or not least <= int(word) <= most:
        raise ConfigError(f"{key}={text}: expected a whole number from {least} to {most}")
    return int(word)


def _bounds(wanted: Any) -> tuple[int, int]:
    least, most = INT32_MIN, INT32_MAX  # Java's int, unless the field says otherwise
    if get_origin(wanted) is Annotated:
        wanted, *notes = get_args(wanted)
        for note in notes:
            least = note.ge if note.ge is not None else least
            most = note.le if note.le is not None else most
    assert wanted is int, f"a configuration field cannot be of type {wanted}"
    return least, most
