"""The page on the source names every option and column, and none that there is not."""

from __future__ import annotations

import re
from pathlib import Path

from apogeemq.spark.options import OptionReader
from apogeemq.spark.source.columns import ALL_COLUMNS
from apogeemq.spark.source.read_options import ReadOptions

PAGE = (Path(__file__).parents[4] / "docs" / "spark.md").read_text()
SECTION = PAGE.split("## Reading topics: `rocketmq`")[1].split("\n## ")[0]


def tables() -> list[list[str]]:
    """The names in the first cells, table by table."""
    found: list[list[str]] = []
    for line in SECTION.splitlines():
        if line.startswith(("| option", "| column")):
            found.append([line.split("|")[1].strip()])
        elif line.startswith("| `") and found:
            found[-1] += re.findall(r"`([^`]+)`", re.split(r"(?<!\\)\|", line)[1])
    return found


def test_every_option_is_in_a_table() -> None:
    in_tables = {name for table in tables() if table[0] == "option" for name in table[1:]}
    options = OptionReader({"nameServer": "a:1", "subscribe": "t"})
    ReadOptions.taken_from(options)
    assert in_tables == options.known_names


def test_every_column_is_in_the_table() -> None:
    assert [name for table in tables() if table[0] == "column" for name in table[1:]] == list(ALL_COLUMNS)
