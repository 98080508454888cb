"""Functions that could say something else the next time."""

from __future__ import annotations

import pytest

from apogeemq.spark.pipeline.text.sql_functions import changing_functions


@pytest.mark.parametrize(
    ("expression", "changing"),
    [
        ("Rand() > 0.5 AND 'uuid()' <> current_timestamp AND price (1)", {"rand", "current_timestamp"}),
        ("born_timestamp < localtimestamp AND at < current_time", {"localtimestamp", "current_time"}),
        ("at < localtimestamp ( )", {"localtimestamp"}),
        ("unix_timestamp(born_timestamp) > 0 AND unix_timestamp(day, 'yyyy') > 0", set()),
        ("unix_timestamp( ) > 0", {"unix_timestamp"}),
        ("unix_timestamp > 0 AND uuid <> '' AND value.current_date > 0 AND `localtimestamp` > 1", set()),
        ("", set()),
    ],
)
def test_changing_functions(expression: str, changing: set[str]) -> None:
    assert changing_functions(expression) == changing
