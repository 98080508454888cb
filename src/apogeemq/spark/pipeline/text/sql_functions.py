"""Functions that a rule must not call. Pure.

Rows must fall to the same side when an epoch is done again, and in every query that reads their view.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Final

from apogeemq.spark.pipeline.text.sql_tokens import NOTHING, tokens_of

_CHANGING: Final = frozenset(
    (
        *("rand", "random", "randn", "uuid", "randstr", "uniform", "shuffle", "monotonically_increasing_id"),
        *("spark_partition_id", "input_file_name", "current_timestamp", "current_date", "current_time", "now"),
        *("localtimestamp", "curdate"),
    )
)
# Of now, unless they are given a time.
_CHANGING_WITHOUT_ARGUMENTS: Final = frozenset(("unix_timestamp",))
# Called without brackets, too.
_BARE: Final = frozenset(("current_timestamp", "current_date", "current_time", "localtimestamp"))


def changing_functions(expression: str) -> frozenset[str]:
    """Those the expression calls that could say something else the next time, in lower case."""
    tokens = tokens_of(expression)
    found = set()
    for before, token, after, last in zip_longest(
        [NOTHING, *tokens[:-1]], tokens, tokens[1:], tokens[2:], fillvalue=NOTHING
    ):
        name = token.text.lower() if token.is_name and before.text != "." else ""
        is_called = after.text == "(" or (name in _BARE and token.kind == "word")
        is_empty = after.text == "(" and last.text == ")"
        if (is_called and name in _CHANGING) or (is_empty and name in _CHANGING_WITHOUT_ARGUMENTS):
            found.add(name)
    return frozenset(found)
