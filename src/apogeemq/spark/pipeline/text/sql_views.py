"""Which views a query reads, found in its text: enough of SQL's grammar to tell a relation from all else. Pure.

Spark itself decides when the query is analysed; this lets `validate` name a view that does not exist without starting
Spark, and gives the order of the steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from apogeemq.spark.pipeline.text.sql_tokens import NOTHING, Token, tokens_of

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


# Words and signs before the statement `TABLE name`; an argument `TABLE name` comes after the others.
_BEFORE_TABLE: Final = frozenset(("", "(", "UNION", "INTERSECT", "EXCEPT", "MINUS", "ALL", "DISTINCT"))
_BEFORE_TABLE_ARGUMENT: Final = frozenset(("(", ",", ">"))


@dataclass(slots=True)
class _Bracket:
    is_call: bool = False
    is_query: bool = False
    is_in_with: bool = False
    is_recursive: bool = False
    defining: str = ""  # the name that the WITH is about to define
    defined: set[str] = field(default_factory=set)  # by a WITH, known within the bracket from there on
    has_select: bool = False
    is_in_from: bool = False
    expects_relation: bool = False


def is_query(sql: str) -> bool:
    """Whether the text asks for rows; a command such as DROP TABLE does not."""
    tokens = tokens_of(sql)
    return bool(tokens) and tokens[0].key_word in _FIRST_WORDS


def views_read(sql: str) -> tuple[str, ...]:
    """Names without a dot after FROM, JOIN and their commas, or TABLE, in order, each once; not those a WITH defines.

    A name with a dot (`catalog.table`, `parquet.\\`/path\\``) is of a table outside of the pipeline.
    """
    return _Reading(tokens_of(sql)).run()


class _Reading:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._brackets = [_Bracket()]
        self._views: dict[str, None] = {}

    def run(self) -> tuple[str, ...]:
        position = 0
        while position < len(self._tokens):
            position = self._step(position)
        return tuple(self._views)

    def _step(self, position: int) -> int:
        token, here = self._tokens[position], self._brackets[-1]
        word = token.key_word
        if word == "(":
            self._open(position)
        elif word == ")":
            self._close()
        elif word == "," and here.is_in_from:
            here.expects_relation = True
        elif word == "SELECT":
            here.has_select, here.is_in_from, here.expects_relation, here.is_in_with = True, False, False, False
        elif (word == "FROM" and self._is_clause(position)) or word == "JOIN":
            here.is_in_from, here.expects_relation, here.is_in_with = True, True, False
        elif word == "TABLE" and self._names_table(position):
            here.expects_relation, here.is_in_with = True, False
        elif word == "WITH" and (here.expects_relation or not here.is_in_from):
            here.is_in_with, here.is_in_from, here.expects_relation = True, False, False
        elif self._ends_from(position):
            here.is_in_from = here.expects_relation = False
        elif token.is_name and here.expects_relation and word not in _BEFORE_RELATION:
            return self._relation(position)
        elif token.is_name and here.is_in_with:
            self._begin_definition(position)
        return position + 1

    def _open(self, position: int) -> None:
        here = self._brackets[-1]
        before = self._tokens[position - 1] if position else NOTHING
        is_relation = here.expects_relation
        here.expects_relation = False
        is_call = before.is_name and before.key_word not in _NOT_CALLED and not is_relation
        is_query = self._word(position + 1) in _FIRST_WORDS
        self._brackets.append(_Bracket(is_call, is_query, is_in_from=is_relation, expects_relation=is_relation))

    def _close(self) -> None:
        if len(self._brackets) > 1:
            closed = self._brackets.pop()
            here = self._brackets[-1]
            if here.is_in_with and closed.is_query:  # else the names of its columns
                here.defined.add(here.defining)

    def _begin_definition(self, position: int) -> None:
        """A name that a WITH defines is known after its query, and within it when it is RECURSIVE."""
        here, name = self._brackets[-1], self._tokens[position].text.lower()
        if self._word(position - 1) in ("WITH", "RECURSIVE", ",") and self._word(position) != "RECURSIVE":
            here.defining = name
            here.is_recursive |= self._word(position - 1) == "RECURSIVE"
            if here.is_recursive:
                here.defined.add(name)

    def _names_table(self, position: int) -> bool:
        """Not a column of that name."""
        before, here = self._word(position - 1), self._brackets[-1]
        follows = self._tokens[position + 1] if position + 1 < len(self._tokens) else NOTHING
        if not (follows.is_name or follows.text == "(") or (here.is_in_from and not here.expects_relation):
            return False
        if here.is_call:
            return before in _BEFORE_TABLE_ARGUMENT
        return before in _BEFORE_TABLE or (before == ")" and here.is_in_with)

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
        self._brackets[-1].expects_relation = False
        if token.key_word == "IDENTIFIER" and is_function:
            return self._identifier(end)
        if end == position + 1 and not is_function and token.key_word not in ("VALUES", "TABLE"):
            self._add(token.text)
        return end

    def _identifier(self, opener: int) -> int:
        """`IDENTIFIER('name')`; of one that is computed, only Spark knows the name."""
        if self._word(opener + 2) == ")" and self._tokens[opener + 1].kind == "string":
            name = tokens_of(self._tokens[opener + 1].text.lstrip("rR")[1:-1])
            if len(name) == 1 and name[0].is_name:
                self._add(name[0].text)
            return opener + 3
        return opener

    def _add(self, name: str) -> None:
        if not any(name.lower() in bracket.defined for bracket in self._brackets):
            self._views[name] = None

    def _ends_from(self, position: int) -> bool:
        word = self._word(position)
        if word == "LATERAL":
            return self._word(position + 1) == "VIEW"  # the commas after it are between columns
        if word == "|":
            return self._word(position + 1) == ">"  # what a pipe's operator names is no relation, but after JOIN
        return word in _END_OF_FROM and self._word(position - 1) != "."

    def _word(self, position: int) -> str:
        return self._tokens[position].key_word if 0 <= position < len(self._tokens) else ""
