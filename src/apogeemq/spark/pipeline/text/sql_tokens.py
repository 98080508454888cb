"""The words of a text in Spark's SQL. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r"""(?P<skip>\s+|--[^\n]*|/\*[\s\S]*?\*/)
      | (?P<string>[rR]?'(?:\\.|''|[^'\\])*'|[rR]?"(?:\\.|""|[^"\\])*")
      | `(?P<quoted>(?:``|[^`])*)`
      | (?P<word>[^\W\d]\w*)
      | (?P<number>\d[\w.]*)
      | (?P<sign>.)""",
    re.VERBOSE,
)


@dataclass(slots=True)
class Token:
    kind: str  # word, quoted, string, number or sign
    text: str

    @property
    def key_word(self) -> str:
        return self.text.upper() if self.kind in ("word", "sign") else ""

    @property
    def is_name(self) -> bool:
        return self.kind in ("word", "quoted")


NOTHING: Final = Token("sign", "")


def tokens_of(sql: str) -> list[Token]:
    found = []
    for match in _TOKEN.finditer(sql):
        kind = match.lastgroup or "sign"
        if kind != "skip":
            found.append(Token(kind, match[kind].replace("``", "`") if kind == "quoted" else match[kind]))
    return found
