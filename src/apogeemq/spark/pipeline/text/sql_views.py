"""Which views a query reads, found in its text: enough of SQL's grammar to tell a relation from all else. Pure.

Spark itself decides when the query is analysed; this lets `validate` name a view that does not exist without starting
Spark, and gives the order of the steps.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import zip_longest
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
_FIRST_WORDS: Final = frozenset(("SELECT", "WITH", "FROM", "VALUES", "TABLE", "("))
_END_OF_FROM: Final = frozenset(
    (
        *("WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW"),
        *("QUALIFY", "UNION", "INTERSECT", "EXCEPT", "MINUS"),
    )
)
_BEFORE_RELATION: Final = frozenset(("LATERAL", "ONLY", "STREAM"))
# Words that stand before a bracket that is no call.
_NOT_CALLED: Final = frozenset(
    (*("FROM", "JOIN", "IN", "AS", "ON", "AND", "OR", "NOT", "WHERE", "EXISTS", "UNION", "ALL"),)
)


@dataclass(slots=True)
class _Token:
    kind: str  # word, quoted, string, number or sign
    text: str

    @property
    def key_word(self) -> str:
        return self.text.upper() if self.kind in ("word", "sign") else ""

    @property
    def is_name(self) -> bool:
        return self.kind in ("word", "quoted")


@dataclass(slots=True)
class _Bracket:
    opener: str = ""  # the name before it
    is_call: bool = False
    has_select: bool = False
    is_in_from: bool = False
    expects_relation: bool = False


def is_query(sql: str) -> bool:
    """Whether the text asks for rows; a command such as DROP TABLE does not."""
    tokens = _tokens(sql)
    return bool(tokens) and tokens[0].key_word in _FIRST_WORDS


def views_read(sql: str) -> tuple[str, ...]:
    """Names without a dot after FROM, JOIN and their commas, in order, each once; not those a WITH defines.

    A name with a dot (`catalog.table`, `parquet.\\`/path\\``) is of a table outside of the pipeline.
    """
    return _Reading(_tokens(sql)).run()


def functions_called(text: str) -> frozenset[str]:
    """Lower-case names that stand before an opening bracket, or are called without one."""
    tokens = _tokens(text)
    called = {
        token.text.lower()
        for token, following in zip_longest(tokens, tokens[1:], fillvalue=_Token("sign", ""))
        if token.is_name and (following.text == "(" or token.text.lower() in ("current_timestamp", "current_date"))
    }
    return frozenset(called)


def _tokens(sql: str) -> list[_Token]:
    found = []
    for match in _TOKEN.finditer(sql):
        kind = match.lastgroup or "sign"
        if kind != "skip":
            found.append(_Token(kind, match[kind].replace("``", "`") if kind == "quoted" else match[kind]))
    return found


class _Reading:
    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._brackets = [_Bracket()]
        self._views: dict[str, None] = {}
        self._defined: set[str] = set()

    def run(self) -> tuple[str, ...]:
        position = 0
        while position < len(self._tokens):
            position = self._step(position)
        return tuple(view for view in self._views if view.lower() not in self._defined)

    def _step(self, position: int) -> int:
        token, here = self._tokens[position], self._brackets[-1]
        word = token.key_word
        if word == "(":
            self._open(position)
        elif word == ")":
            self._close(position)
        elif word == "," and here.is_in_from:
            here.expects_relation = True
        elif word == "SELECT":
            here.has_select, here.is_in_from, here.expects_relation = True, False, False
        elif (word == "FROM" and self._is_clause(position)) or word == "JOIN":
            here.is_in_from = here.expects_relation = True
        elif self._ends_from(position):
            here.is_in_from = here.expects_relation = False
        elif token.is_name and here.expects_relation and word not in _BEFORE_RELATION:
            return self._relation(position)
        elif token.is_name and self._word(position + 1) == "AS" and self._word(position + 2) == "(":
            self._defined.add(token.text.lower())
        return position + 1

    def _open(self, position: int) -> None:
        here = self._brackets[-1]
        before = self._tokens[position - 1] if position else _Token("sign", "")
        is_relation = here.expects_relation
        here.expects_relation = False
        is_call = before.is_name and before.key_word not in _NOT_CALLED and not is_relation
        self._brackets.append(_Bracket(before.text, is_call, is_in_from=is_relation, expects_relation=is_relation))

    def _close(self, position: int) -> None:
        if len(self._brackets) > 1:
            closed = self._brackets.pop()
            if closed.is_call and self._word(position + 1) == "AS" and self._word(position + 2) == "(":
                self._defined.add(closed.opener.lower())  # WITH name(columns) AS (…)

    def _is_clause(self, position: int) -> bool:
        """Not the FROM of `extract(year FROM t)`, that of `IS DISTINCT FROM`, or a column of that name."""
        here = self._brackets[-1]
        if (here.is_call and not here.has_select) or self._word(position - 1) == ".":
            return False
        return not (self._word(position - 1) == "DISTINCT" and self._word(position - 2) in ("IS", "NOT"))

    def _relation(self, position: int) -> int:
        """Take a possibly dotted name; gives the position after it."""
        end = position + 1
        while self._word(end) == "." and end + 1 < len(self._tokens):
            end += 2
        token = self._tokens[position]
        is_function = self._word(end) == "("
        if end == position + 1 and not is_function and token.key_word not in ("VALUES", "TABLE"):
            self._views[token.text] = None
        self._brackets[-1].expects_relation = False
        return end

    def _ends_from(self, position: int) -> bool:
        word = self._word(position)
        if word == "LATERAL":
            return self._word(position + 1) == "VIEW"  # the commas after it are between columns
        return word in _END_OF_FROM and self._word(position - 1) != "."

    def _word(self, position: int) -> str:
        return self._tokens[position].key_word if 0 <= position < len(self._tokens) else ""
