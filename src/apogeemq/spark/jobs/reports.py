"""A step for pipelines that make reports."""

from __future__ import annotations

from pyspark.sql import DataFrame


def kept(rows: DataFrame) -> DataFrame:
    """The same rows, computed once for all that use them: those of a report are few, and what they come from is much.

    Only of tables; a stream has its own way.
    """
    return rows if rows.isStreaming else rows.persist()
