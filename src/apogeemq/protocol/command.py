"""One request or response: the header's fields and the body, whatever codec carried them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import msgspec

from apogeemq.errors import ProtocolError
from apogeemq.protocol import versions

JSON: Final = 0
BINARY: Final = 1

FLAG_RESPONSE: Final = 1
FLAG_ONE_WAY: Final = 2

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

LANGUAGE: Final = "PYTHON"
LANGUAGES: Final = (
    "JAVA",
    "CPP",
    "DOTNET",
    "PYTHON",
    "DELPHI",
    "ERLANG",
    "RUBY",
    "OTHER",
    "HTTP",
    "GO",
    "PHP",
    "OMS",
    "RUST",
    "NODE_JS",
)

# Keys no JSON header from a peer is meant to hold; body and codec are overwritten in any case.
_WIRE_NAMES = {"ext_json": "extFields", "body": "#body", "codec": "#codec", "ext_map": "#ext", "shortcut": "#shortcut"}


NO_FIELDS: Final = msgspec.Raw(b"{}")


# The next two are types of our own so that no JSON is ever decoded into them: a peer that could fill these fields
# of a command would sign other fields than a handler reads, or have functions called.


class FieldMap(dict[str, str]):
    """Extension fields by name."""


class Shortcut(tuple[Callable[[str], bytes | None], str]):
    """A function from text to an answer's body, and the text."""


class Command(msgspec.Struct, rename=_WIRE_NAMES):
    """A decoded frame.

    `ext_json` holds the extension fields as JSON text when the JSON codec carried them, so that a typed header
    can be decoded from it directly; `fields()` gives them as a dictionary whatever the codec.
    """

    code: Int32
    opaque: Int32 = 0
    flag: Int32 = 0
    version: Int32 = 0
    language: str | int | None = None
    remark: str | None = None
    ext_json: msgspec.Raw = NO_FIELDS
    body: bytes = b""
    codec: int = JSON
    ext_map: FieldMap | None = None
    # Set by a handler whose answer is a mere look-up: the function and its key.
    shortcut: Shortcut | None = None

    @property
    def is_response(self) -> bool:
        return self.flag & FLAG_RESPONSE != 0

    @property
    def is_one_way(self) -> bool:
        return self.flag & FLAG_ONE_WAY != 0

    def fields(self) -> dict[str, str]:
        """The extension fields by name; values that were not strings are written as Java would."""
        if self.ext_map is None:
            self.ext_map = _fields_from_json(self.ext_json)
        return self.ext_map


def _fields_from_json(text: msgspec.Raw) -> FieldMap:
    try:
        fields = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise ProtocolError(f"extFields: {error}") from None
    if fields is None:
        return FieldMap()
    if not isinstance(fields, dict):
        raise ProtocolError("extFields is not an object")
    return FieldMap((name, field_text(value)) for name, value in fields.items() if value is not None)


def field_text(value: Any) -> str:
    """A header value as Java writes it into the extension fields."""
    if isinstance(value, str):
        return value
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, int | float):
        return str(value)
    return msgspec.json.encode(value).decode()


class CommandHead(msgspec.Struct):
    """What an encoder needs besides extension fields and body."""

    code: int
    opaque: int
    flag: int = 0
    remark: str | None = None
    language: str = LANGUAGE
    version: int = versions.CURRENT
