"""Schemas as Spark writes them in DDL (`a STRING, b ARRAY<INT>`), checked without Spark. Pure."""

from __future__ import annotations

import re
from typing import Final

from apogeemq.spark.pipeline.text.problems import only_near

SIMPLE_TYPES: Final = frozenset(
    (
        *("boolean", "tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long", "float"),
        *("real", "double", "decimal", "dec", "numeric", "string", "char", "character", "varchar", "binary"),
        *("date", "time", "timestamp", "timestamp_ntz", "timestamp_ltz", "variant", "void", "interval"),
    )
)
_NESTED_TYPES: Final = ("array", "map", "struct")
_TOKEN: Final = re.compile(r"\s*(?:`(?P<quoted>(?:``|[^`])+)`|(?P<word>[^\W]\w*)|(?P<string>'[^']*')|(?P<sign>\S))")
MAX_DEPTH: Final = 50


class SchemaUnreadable(ValueError):
    """One sentence."""


def checked_ddl(text: str) -> list[str]:
    """The names of the columns. SchemaUnreadable says what cannot be understood."""
    parser = _Parser(text)
    names = parser.columns(end="", depth=0)
    if not names:
        raise SchemaUnreadable("the schema has no columns")
    return names


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = [(match.lastgroup or "", match[match.lastgroup or 0]) for match in _TOKEN.finditer(text)]
        self._at = 0

    def columns(self, end: str, depth: int) -> list[str]:
        names: list[str] = []
        while self._peek() != end:
            kind, name = self._next("a column")
            if kind not in ("word", "quoted"):
                raise SchemaUnreadable(f"a column's name was expected where {name!r} stands")
            if kind == "quoted":
                name = name.replace("``", "`")
            if name.lower() in (known.lower() for known in names):
                raise SchemaUnreadable(f"the column {name} is there twice")
            names.append(name)
            if self._peek() == ":":
                self._at += 1
            self._type(f"the type of {name}", depth)
            self._attributes()
            if self._peek() not in (",", end):
                raise SchemaUnreadable(f"a comma was expected after column {name}, not {self._peek()!r}")
            if self._peek() == ",":
                self._at += 1
        return names

    def _type(self, what: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise SchemaUnreadable(f"types are nested more than {MAX_DEPTH} deep")
        name = self._next(what)[1].lower()
        if name in _NESTED_TYPES:
            self._expect("<", name)
            if name == "struct":
                self.columns(">", depth + 1)
            else:
                self._type(f"the type in {name}", depth + 1)
                if name == "map":
                    self._expect(",", name)
                    self._type("the type of a map's values", depth + 1)
            self._expect(">", name)
        elif name not in SIMPLE_TYPES:
            near = only_near(name, (*SIMPLE_TYPES, *_NESTED_TYPES))
            raise SchemaUnreadable(f"{name!r} is not a type of Spark ({what}){near}")
        elif name == "interval":
            while self._peek().lower() in ("year", "month", "day", "hour", "minute", "second", "to"):
                self._at += 1
        else:
            self._type_arguments(name)

    def _type_arguments(self, name: str) -> None:
        """(10, 2), COLLATE name."""
        if self._peek() == "(":
            while self._peek() not in (")", ""):
                self._at += 1
            self._expect(")", name)
        if self._peek().upper() == "COLLATE":
            self._at += 2
            while self._peek() == ".":
                self._at += 2

    def _attributes(self) -> None:
        """NOT NULL, COMMENT 'text'."""
        while self._peek().upper() in ("NOT", "NULL", "COMMENT"):
            self._at += 2 if self._peek().upper() == "COMMENT" else 1

    def _expect(self, sign: str, where: str) -> None:
        if self._peek() != sign:
            raise SchemaUnreadable(f"{sign!r} was expected in {where}, not {self._peek() or 'the end'!r}")
        self._at += 1

    def _next(self, what: str) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            raise SchemaUnreadable(f"the schema ends where {what} was expected")
        self._at += 1
        return self._tokens[self._at - 1]

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""
