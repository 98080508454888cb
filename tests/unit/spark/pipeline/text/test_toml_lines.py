"""The lines of tables and keys, in every way TOML has to write them."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apogeemq.spark.pipeline.text.toml_lines import line_index

TEXT = """\
# a comment with [brackets] and key = 1
top = 1

[pipeline]  # name = "x"
name = "a # b"
sql = \"\"\"
[not.a.table]
key = 1 \\\"\"\" still
\"\"\"
literal = '''
also = no
'''
list = [
  1, # one
  "]", { inner = 2,
  }
]
inline = { a = 1, b.c = "}", "quoted key" = [1, 2] }
"a.b" = 1
[ sources . "x y" ]
"\\u0041" = true
last = 1979-05-27T07:32:00Z
[[many]]
one = 1
[[many]]
one = 2"""


def test_every_table_and_key_has_its_line() -> None:
    text = TEXT.replace("2,\n  }", "2 }")  # inline tables are of one line before TOML 1.1
    assert tomllib.loads(text)["pipeline"]["list"][2] == {"inner": 2}
    found = line_index(text)
    expected = {
        ("top",): 2,
        ("pipeline",): 4,
        ("pipeline", "name"): 5,
        ("pipeline", "sql"): 6,
        ("pipeline", "literal"): 10,
        ("pipeline", "list"): 13,
        ("pipeline", "list", "inner"): 15,
        ("pipeline", "inline"): 17,
        ("pipeline", "inline", "a"): 17,
        ("pipeline", "inline", "b"): 17,
        ("pipeline", "inline", "b", "c"): 17,
        ("pipeline", "inline", "quoted key"): 17,
        ("pipeline", "a.b"): 18,
        ("sources",): 19,
        ("sources", "x y"): 19,
        ("sources", "x y", "A"): 20,
        ("sources", "x y", "last"): 21,
        ("many",): 22,
        ("many", "one"): 23,
    }
    assert found == expected


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment", "a = ", "[", "= =", '"""', "a = [1,", "\x00"])
def test_whatever_is_no_toml_comes_to_an_end(text: str) -> None:
    assert all(line >= 1 for line in line_index(text).values())


@given(st.text(alphabet="[]{}=,.#\"'\\\n abc1", max_size=60))
def test_any_text_ends_and_any_toml_has_all_its_keys(text: str) -> None:
    found = line_index(text)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    assert set(_paths(document)) <= set(found)


def _paths(value: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if isinstance(value, dict):
        return [found for key, item in value.items() for found in [(*path, key), *_paths(item, (*path, key))]]
    return [found for item in value for found in _paths(item, path)] if isinstance(value, list) else []
