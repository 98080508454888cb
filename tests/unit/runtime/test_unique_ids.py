"""No id twice, whatever the clock does."""

from __future__ import annotations

import random
import threading

from apogeemq.runtime.unique_ids import UniqueIds

ADDRESS = bytes((127, 0, 0, 1))
HOUR_MS = 3_600_000
NOW_MS = 1_700_000_000_000


def test_ids_of_one_millisecond_differ() -> None:
    ids = UniqueIds(ADDRESS)
    assert len({ids.next(NOW_MS) for _ in range(1000)}) == 1000


def test_a_clock_that_is_set_back_repeats_no_id() -> None:
    """The counter alone would: it begins anew after 65,536 ids, here within the hour that comes twice."""
    ids = UniqueIds(ADDRESS)
    times = [NOW_MS + number % 65_536 // 16 for number in range(2 * 65_536)]
    assert len({ids.next(time) for time in times}) == len(times)


def test_set_back_and_forth() -> None:
    ids = UniqueIds(ADDRESS)
    made: set[str] = set()
    for jump in (0, HOUR_MS, 0, -HOUR_MS, 0, 40 * 24 * HOUR_MS, 0):
        made |= {ids.next(NOW_MS + jump + step) for step in range(500)}
    assert len(made) == 7 * 500


def test_a_program_that_seeds_its_chance_gets_other_ids_all_the_same() -> None:
    made = []
    for _ in range(2):
        random.seed(1)
        made.append(UniqueIds(ADDRESS).next(NOW_MS))
    assert made[0] != made[1]


def test_several_at_once_are_those_that_would_have_come_one_by_one() -> None:
    ids = UniqueIds(ADDRESS)
    first = ids.next(NOW_MS)
    several = ids.several(NOW_MS, 3).texts()
    assert [int(each[-4:], 16) for each in several] == [1, 2, 3]
    assert {each[:-4] for each in several} == {first[:-4]}
    assert ids.next(NOW_MS + 1)[-4:] == "0004"
    assert ids.several(NOW_MS + 2, 0).texts() == []


def test_many_at_once_count_on_over_every_digit() -> None:
    ids = UniqueIds(ADDRESS)
    made = [number for size in (1, 255, 256, 700, 65_000) for number in ids.several(NOW_MS, size).texts()]
    assert [int(each[-4:], 16) for each in made] == [number % 65_536 for number in range(len(made))]


def test_threads_share_one_sequence() -> None:
    ids = UniqueIds(ADDRESS)
    made: list[str] = []

    def ask(number: int) -> None:
        made.extend(ids.next(NOW_MS + 100 - number % 3) for number in range(number, number + 2_000))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(int(each[-4:], 16) for each in made) == list(range(8_000))
    assert len({each[:-12] for each in made}) == 1  # all before time and number
