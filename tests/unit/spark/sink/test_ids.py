from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from apogeemq.spark.hex_digits import in_hex
from apogeemq.spark.sink.ids import Ids, IdScope, repeated_in


def texts(ids: Ids) -> list[str]:
    return [bytes(row).decode() for row in in_hex(ids)]


def positions(scope: IdScope, offsets: list[int], occurrences: list[int] | None = None, queue: int = 0) -> list[str]:
    count = len(offsets)
    return texts(
        scope.of_positions(
            [("orders", "broker-a", queue)],
            np.zeros(count, dtype=np.int64),
            np.array(offsets, dtype=np.int64),
            np.array(occurrences or [0] * count, dtype=np.int64),
        )
    )


def test_ids_are_the_same_in_every_process() -> None:
    assert texts(IdScope("query", 7).of_keys([b"one", b"two"])) == [
        "8729C0D90405EC0A3E7400000000977D",
        "87291BA1BFEE6153C48F00000000E3A9",
    ]
    assert positions(IdScope("query", 7), [0, 1, 2**40]) == [
        "8729A4BA9E99F73138070000000072AD",
        "8729E5F8FBCA2F708F8A0000000072AD",
        "8729C2F2BFB261C08B390000000072AD",
    ]


def test_the_time_of_the_month_is_zero() -> None:
    """Apache's tools look for a message from that time on."""
    for text in texts(IdScope("query", 7).of_keys([b"one"])) + positions(IdScope("query"), [5]):
        assert text[20:28] == "00000000"


def test_query_and_epoch_make_other_ids() -> None:
    scopes = [IdScope("a", 1), IdScope("a", 2), IdScope("b", 1), IdScope("a"), IdScope("a1"), IdScope("", 1)]
    assert len({text for scope in scopes for text in texts(scope.of_keys([b"one"]))}) == len(scopes)
    assert len({text for scope in scopes for text in positions(scope, [1])}) == len(scopes)


def test_all_ids_of_a_scope_begin_alike() -> None:
    scope = IdScope("query", 7)
    found = [*texts(scope.of_keys([b"a", b"b"])), *positions(scope, [0, 9])]
    assert {text[:4] for text in found} == {scope.tag.hex().upper()}


@given(st.lists(st.integers(0, 2**62), unique=True, max_size=50), st.integers(0, 100))
def test_places_of_one_queue_never_collide(offsets: list[int], queue: int) -> None:
    assert len(set(positions(IdScope("query", 1), offsets, queue=queue))) == len(offsets)


def test_rows_of_one_message_and_queues_differ() -> None:
    scope = IdScope("query", 1)
    same_message = positions(scope, [5] * 70_000, list(range(70_000)))
    assert len(set(same_message)) == 70_000
    assert same_message[0] == positions(scope, [5])[0]
    assert positions(scope, [5], queue=1) != positions(scope, [5], queue=2)


def test_no_rows() -> None:
    assert IdScope("q").of_keys([]).shape == (0, 16)
    assert positions(IdScope("q"), []) == []
    assert repeated_in(IdScope("q").of_keys([])) == 0


def test_ids_that_come_twice_are_counted() -> None:
    scope = IdScope("q")
    assert repeated_in(scope.of_keys([b"a", b"b", b"c"])) == 0
    assert repeated_in(scope.of_keys([b"a", b"b", b"a", b"a"])) == 2
