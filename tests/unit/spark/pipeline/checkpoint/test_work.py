"""What makes a run another run."""

from __future__ import annotations

from pathlib import Path

import pytest

from apogeemq.spark.pipeline.checkpoint.work import work_of
from apogeemq.spark.pipeline.reading import read_pipeline

FILE = """\
[pipeline]
name = "p"
[sources.line]
format = "json"
path = "in.json"
schema = "body BINARY"
[sources.line.decode]
format = "json"
schema = "id INT"
malformed = "keep"
[steps.v]
sql = "SELECT value.id FROM line"
[quality.v.rules]
small = "id < 3"
[dead_letters]
kind = "json"
path = "dead"
[sinks.s]
from = "v"
kind = "parquet"
path = "out"
"""


def work(folder: Path, text: str) -> str:
    file = folder / "p.toml"
    file.write_text(text)
    return work_of(read_pipeline(file, {}))


def test_the_same_file_with_other_lines_does_the_same(tmp_path: Path) -> None:
    assert work(tmp_path, FILE) == work(tmp_path, "# more\n\n" + FILE.replace("[steps.v]", "\n[steps.v]"))


def test_neither_order_nor_keys_make_another_work(tmp_path: Path) -> None:
    step = '[steps.w]\nsql = "SELECT 1"\n'
    assert work(tmp_path, FILE + step) == work(tmp_path, FILE.replace("[steps.v]", step + "[steps.v]"))
    sink = '[sinks.t]\nfrom = "v"\nkind = "jdbc"\noptions = { url = "u", dbtable = "t", password = "a" }\n'
    assert work(tmp_path, FILE + sink) == work(tmp_path, FILE + sink.replace('"a"', '"b"'))
    assert work(tmp_path, FILE + sink) != work(tmp_path, FILE + sink.replace('"u"', '"v"'))


@pytest.mark.parametrize(
    "before, after",
    [
        ('"in.json"', '"other.json"'),
        ('"id INT"', '"id BIGINT"'),
        ("value.id", "value.id + 1 AS id"),
        ("id < 3", "id < 4"),
        ('"dead"', '"graves"'),
        ('"out"', '"elsewhere"'),
    ],
)
def test_another_part_is_another_work(tmp_path: Path, before: str, after: str) -> None:
    assert work(tmp_path, FILE) != work(tmp_path, FILE.replace(before, after))
