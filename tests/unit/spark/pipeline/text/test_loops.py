"""Pipelines that would read what they write."""

from __future__ import annotations

import pytest

from tests.unit.spark.pipeline.text.pipeline_texts import SINK, parse, problems, with_part


@pytest.mark.parametrize(
    ("selection", "server", "is_loop"),
    [
        ('subscribe = "t,u"', "H:1", True),
        ('subscribe = "t"', "g:1; h:1", True),
        ('assign = \'{"t": {"a": [0]}}\'', "h:1", True),
        ('subscribePattern = "t.*"', "h:1", True),
        ('subscribePattern = "u.*"', "h:1", False),
        ('subscribe = "u"', "h:1", False),
        ('subscribe = "t"', "g:1", False),
        ('subscribe = "t"\nnamespace = "n"', "h:1", False),
    ],
)
def test_a_pipeline_does_not_read_what_it_writes(selection: str, server: str, is_loop: bool) -> None:
    text = with_part(SINK + f'[dead_letters]\ntopic = "t"\noptions = {{ nameServer = "{server}" }}\n')
    text = text.replace('subscribe = "t"', selection)
    if not is_loop:
        assert parse(text).dead_letters is not None
        return
    assert [problem.partition(": ")[2] for problem in problems(text)] == [
        "dead_letters: writes to the topic t, which sources.a reads: what is written would be read again, without end"
    ]


def test_a_server_is_the_same_by_any_of_its_names() -> None:
    text = with_part(SINK + '[dead_letters]\ntopic = "t"\noptions = { nameServer = "localhost:1" }\n')
    (problem,) = problems(text.replace('"h:1"', '"g:1,127.0.0.1:1"'))
    assert problem.startswith("12: dead_letters: writes to the topic t, which sources.a reads")
