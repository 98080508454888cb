"""Large tables told in parts."""

from __future__ import annotations

from apogeemq.broker.paging import MAX_PAGE, page_of
from apogeemq.model.routes import DataVersion

TABLE = {"c": 3, "a": 1, "b": 2}
VERSION = DataVersion(7, 0, 9)
ASKED = '{"counter":7,"stateVersion":0,"timestamp":9}'


def test_whoever_knows_no_pages_gets_all_in_order() -> None:
    assert list(page_of(TABLE, VERSION, None, None, None)) == ["a", "b", "c"]


def test_pages_follow_each_other() -> None:
    assert page_of(TABLE, VERSION, ASKED, 0, 2) == {"a": 1, "b": 2}
    assert page_of(TABLE, VERSION, ASKED, 2, 2) == {"c": 3}
    assert page_of(TABLE, VERSION, ASKED, 4, 2) == {}


def test_another_version_begins_again() -> None:
    for asked in (None, "", "no json", '{"counter":6,"stateVersion":0,"timestamp":9}'):
        assert page_of(TABLE, VERSION, asked, 2, 1) == {"a": 1}


def test_numbers_that_make_no_sense() -> None:
    assert page_of(TABLE, VERSION, ASKED, -5, 1) == {"a": 1}
    assert page_of(TABLE, VERSION, ASKED, 0, -1) == {}
    large = {f"{number:05}": number for number in range(MAX_PAGE + 1)}
    assert len(page_of(large, VERSION, ASKED, 0, None)) == MAX_PAGE
    assert len(page_of(large, VERSION, ASKED, 0, 10**9)) == MAX_PAGE
