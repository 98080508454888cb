"""The start of a stream in the end of its first batch."""

from __future__ import annotations

import json

from apogeemq.spark.first_batch import beginning_of, first_end, is_not_begun, not_begun, without_beginning


def test_only_the_first_end_carries_the_beginning() -> None:
    end = json.loads(json.dumps(first_end({"T": 1}, {"T": 3})))
    assert beginning_of(end) == {"T": 1}
    assert without_beginning(end) == {"T": 3}
    assert beginning_of({"T": 3}) is None
    assert without_beginning({"T": 3}) == {"T": 3}


def test_a_stream_of_nothing_has_begun_all_the_same() -> None:
    assert is_not_begun(json.loads(json.dumps(not_begun())))
    assert not is_not_begun({})
    assert not is_not_begun(first_end({}, {}))
    assert beginning_of(first_end({}, {})) == {}
