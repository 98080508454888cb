"""What is drawn of a pipeline."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType

from apogeemq.cli.pipelines.views import offsets_text, result_table, running_view, status_view
from apogeemq.spark.pipeline.progress import CurrentEpoch, PipelineStatus, QueryStatus, State


def drawn(view: RenderableType) -> str:
    out = io.StringIO()
    Console(file=out, width=100, force_terminal=True, color_system=None).print(view)
    return out.getvalue()


def running(query: QueryStatus, *, is_bounded: bool = True) -> PipelineStatus:
    return PipelineStatus(name="p", state=State.RUNNING, is_bounded=is_bounded, started_ms=1_000, queries=[query])


def test_messages_give_no_orders_to_a_terminal() -> None:
    table = drawn(result_table("s", 1, ["[red]id", "b\x1b[2J"], [["\x1b]0;title\x07", b"\x9b31m\xff"], ["a\nb", None]]))
    assert "\x1b" not in table and "\x07" not in table and "\x9b" not in table
    for word in ("[red]id", "b\\x1b[2J", "\\x1b]0;title\\x07", "\\xff", "—"):
        assert word in table


def test_time_goes_by_though_nothing_is_reported() -> None:
    status = running(QueryStatus(name="orders"))
    assert " 2 s" in drawn(running_view(status, 3_000))
    assert " 59 s" in drawn(running_view(status, 60_000))


def test_a_bounded_run_has_a_bar_before_its_first_epoch_is_over() -> None:
    assert "━" * 40 in drawn(running_view(running(QueryStatus(name="orders")), 0)).splitlines()[-2]
    begun = QueryStatus(name="orders", total=2_000, current=CurrentEpoch(0, 1_500, tasks=12, tasks_done=5))
    shown = drawn(running_view(running(begun), 0))
    assert "0/2,000 rows" in shown and "epoch 0, 1,500 rows: 5/12 tasks" in shown


def test_a_run_without_an_end_shows_the_epoch_it_is_at() -> None:
    begun = QueryStatus(name="orders", current=CurrentEpoch(7))
    shown = drawn(running_view(running(begun, is_bounded=False), 0))
    assert "epoch 7" in shown and "/" not in shown.splitlines()[-2]


def test_late_rows_are_seen_when_there_are_some() -> None:
    none = drawn(running_view(running(QueryStatus(name="totals")), 0))
    assert "late" not in none.lower()
    status = running(QueryStatus(name="totals", rows=5, late_rows=1_234))
    for view in (running_view(status, 0), status_view(status, 0)):
        head, *table = drawn(view).splitlines()
        assert head.endswith("1,234 late rows left out")
        assert " Late " in table[1] and " 1,234 " in table[3]


def test_offsets() -> None:
    found = {"orders": {"b0": {"0": 17, "1": 5}, "b1": {"0": 3}}}
    assert offsets_text(found) == "orders b0: 0=17 1=5\norders b1: 0=3"
    assert [offsets_text(value) for value in (None, 5, {}, {"logOffset": 3})] == ["—", "5", "—", "logOffset=3"]
