"""The readers as Spark calls them, without Spark: name servers are real, and pickling is where Spark pickles."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from apogeemq.errors import ApogeeError, ConfigError, ConnectFailed, EventsLost, RemoteRefused
from apogeemq.spark.first_batch import beginning_of, without_beginning
from apogeemq.spark.routes.data_source import RoutesDataSource
from tests.unit.spark.routes.conftest import Served, StartNameServer

ALL = ReadAllAvailable()
SMALL_FILES = {"journalFileSize": "4096", "journalFileCount": "2"}


def source(*servers: Served | str, **options: Any) -> RoutesDataSource:
    addresses = ";".join(server if isinstance(server, str) else server.address for server in servers)
    given = {"nameServer": addresses, "retries": 0, "connectTimeoutMs": 500, **options}
    return RoutesDataSource({name: str(value) for name, value in given.items()})


def rows(reader: Any, partitions: Iterable[InputPartition]) -> list[tuple[str, int, str]]:
    """Each partition is read by a copy of the reader, as on executors."""
    found = []
    for partition in partitions:
        executor, travelled = pickle.loads(pickle.dumps((reader, partition)))
        for batch in executor.read(travelled):
            found += [(row["name_server"], row["sequence"], row["topic"]) for row in batch.to_pylist()]
    return found


def batch_rows(data_source: RoutesDataSource) -> list[tuple[str, int, str]]:
    reader = data_source.reader(data_source.schema())
    return rows(reader, reader.partitions())


def events(server: Served, *numbers: int) -> list[tuple[str, int, str]]:
    return [(server.address, number, f"T{number}") for number in numbers]


# -- batch ---------------------------------------------------------------------------------------------------


def test_a_batch_has_every_event_once_and_in_order(start_name_server: StartNameServer) -> None:
    names = start_name_server()
    names.happen(25_000)  # more than one page has
    assert batch_rows(source(names)) == events(names, *range(1, 25_001))


def test_a_batch_has_what_the_options_say(start_name_server: StartNameServer) -> None:
    names = start_name_server()
    names.happen(9)
    assert batch_rows(source(names, startingSequence=4, endingSequence=6)) == events(names, 4, 5)
    assert batch_rows(source(names, startingSequence="latest")) == []
    assert batch_rows(source(names, startingSequence="latest", endingSequence=5)) == []
    given = f'{{"{names.address}": 8}}'
    assert batch_rows(source(names, startingSequence=given)) == events(names, 8, 9)


def test_an_empty_journal_is_an_empty_table(start_name_server: StartNameServer) -> None:
    names = start_name_server()
    assert batch_rows(source(names)) == []
    reader = source(names).reader(source(names).schema())
    assert list(reader.read(InputPartition(None))) == []  # what Spark makes of no partitions


def test_each_name_server_has_its_own_numbers(start_name_server: StartNameServer) -> None:
    one, other = start_name_server(), start_name_server()
    one.happen(2)
    other.happen(3)
    assert sorted(batch_rows(source(one, other))) == sorted(events(one, 1, 2) + events(other, 1, 2, 3))


def test_a_batch_without_one_of_its_name_servers_fails(start_name_server: StartNameServer) -> None:
    names = start_name_server()
    with pytest.raises(ConnectFailed, match=r"127\.0\.0\.1:1"):
        batch_rows(source(names, "127.0.0.1:1"))


def test_a_name_server_without_a_journal_says_so(start_name_server: StartNameServer) -> None:
    names = start_name_server(journalEnable="false")
    with pytest.raises(RemoteRefused, match="the route journal is turned off here"):
        batch_rows(source(names, retries=1000))


def test_a_batch_that_begins_before_the_journal_fails_or_goes_on(start_name_server: StartNameServer) -> None:
    names = start_name_server(**SMALL_FILES)
    for _ in range(10):
        names.happen(10)
    first = names.journal.first_sequence
    assert 1 < first < 100
    with pytest.raises(EventsLost, match=f"the events 1 to {first - 1} are gone.*failOnDataLoss=false"):
        batch_rows(source(names, startingSequence=1))
    kept = events(names, *range(first, 101))
    assert batch_rows(source(names, startingSequence=1, failOnDataLoss=False)) == kept
    assert batch_rows(source(names)) == kept


def test_a_batch_that_ends_after_the_journal_fails_or_ends_with_it(start_name_server: StartNameServer) -> None:
    names = start_name_server()
    names.happen(3)
    with pytest.raises(EventsLost, match="ends before 4, not at 10"):
        batch_rows(source(names, endingSequence=10))
    assert batch_rows(source(names, endingSequence=10, failOnDataLoss=False)) == events(names, 1, 2, 3)


def test_events_that_go_after_planning_are_noticed(start_name_server: StartNameServer) -> None:
    names = start_name_server(**SMALL_FILES)
    names.happen(10)
    strict, lenient = (source(names, failOnDataLoss=is_strict) for is_strict in (True, False))
    readers = [data_source.reader(data_source.schema()) for data_source in (strict, lenient)]
    planned = [reader.partitions() for reader in readers]
    for _ in range(9):
        names.happen(10)
    with pytest.raises(EventsLost, match="are gone"):
        rows(readers[0], planned[0])
    assert rows(readers[1], planned[1]) == []


def test_numbers_without_a_line_are_passed(start_name_server: StartNameServer) -> None:
    """A journal whose disk was full gives numbers to what it cannot write."""
    names = start_name_server()
    names.happen(2)
    names.journal.next_sequence += 3
    names.happen(1)
    names.journal.next_sequence += 1
    assert batch_rows(source(names)) == events(names, 1, 2, 6)


# -- stream --------------------------------------------------------------------------------------------------


def stream(*servers: Served | str, **options: Any) -> Any:
    data_source = source(*servers, **options)
    return data_source.streamReader(data_source.schema())


def test_a_stream_goes_on_where_it_was(start_name_server: StartNameServer) -> None:
    names = start_name_server()
    names.happen(3)
    reader = stream(names)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert (beginning_of(end), without_beginning(end)) == ({names.address: 1}, {names.address: 4})
    assert reader.reportLatestOffset() == {names.address: 4}
    assert rows(reader, reader.partitions(start, end)) == events(names, 1, 2, 3)
    assert reader.latestOffset(end, ALL) == end
    assert reader.partitions(end, end) == []
    names.happen(2)
    after = reader.latestOffset(end, ALL)
    assert rows(reader, reader.partitions(end, after)) == events(names, 4, 5)


def test_a_stream_takes_no_more_than_it_may(start_name_server: StartNameServer) -> None:
    one, other = start_name_server(), start_name_server()
    one.happen(9)
    other.happen(2)
    reader = stream(one, other, maxEventsPerTrigger=5)
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(5)
    start = reader.initialOffset()
    end = reader.latestOffset(start, limit)
    assert len(rows(reader, reader.partitions(start, end))) == 5
    assert without_beginning(end) == {one.address: 4, other.address: 3}
    assert reader.latestOffset(end, limit) == {one.address: 9, other.address: 3}
    assert without_beginning(reader.latestOffset(start, ALL)) == {one.address: 10, other.address: 3}


def test_a_stream_of_what_is_there_ends(start_name_server: StartNameServer) -> None:
    names = start_name_server()
    names.happen(3)
    reader = stream(names, maxEventsPerTrigger=2)
    reader.prepareForTriggerAvailableNow()
    names.happen(5)
    places = [reader.initialOffset()]
    while (end := reader.latestOffset(places[-1], ReadMaxRows(2))) != places[-1]:
        places.append(end)
    assert [without_beginning(place) for place in places[1:]] == [{names.address: number} for number in (3, 4)]
    beyond = {names.address: 7}  # of an earlier run
    assert reader.latestOffset(beyond, ALL) == beyond


def test_a_name_server_that_is_away_stays_where_it_is(start_name_server: StartNameServer) -> None:
    one, other = start_name_server(), start_name_server()
    one.happen(1)
    other.happen(1)
    reader = stream(one, other)
    start = reader.latestOffset(reader.initialOffset(), ALL)
    other.stop()
    one.happen(2)
    end = reader.latestOffset(start, ALL)
    assert end == {one.address: 4, other.address: 2}
    assert rows(reader, reader.partitions(start, end)) == events(one, 2, 3)
    one.stop()
    with pytest.raises(ApogeeError):
        reader.latestOffset(end, ALL)
    assert reader.reportLatestOffset() == {one.address: 4}  # the last that was heard


def test_a_name_server_that_was_away_from_the_beginning_is_read_from_its_oldest(
    start_name_server: StartNameServer,
) -> None:
    one, other = start_name_server(), start_name_server(**SMALL_FILES)
    for _ in range(10):
        other.happen(10)
    reader, first = stream(one, other), other.journal.first_sequence
    start = {one.address: 1}
    end = reader.latestOffset(start, ALL)
    assert rows(reader, reader.partitions(start, end)) == events(other, *range(first, 101))


def test_a_stream_of_what_is_new_is_that_whenever_its_first_batch_is_planned(
    start_name_server: StartNameServer,
) -> None:
    names = start_name_server()
    names.happen(100)
    reader = stream(names, startingSequence="latest")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    names.happen(2)
    for planner in (reader, stream(names, startingSequence="latest")):  # and after a restart
        assert planner.partitions(planner.initialOffset(), end) == []
        after = planner.latestOffset(end, ALL)
        assert after == {names.address: 103}
        assert rows(planner, planner.partitions(end, after)) == events(names, 101, 102)


def test_nothing_new_is_no_batch_after_the_first(start_name_server: StartNameServer) -> None:
    names = start_name_server()
    reader = stream(names)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert reader.latestOffset(end, ALL) == end


def test_a_stream_of_what_is_new_begins_when_every_name_server_says_what_that_is(
    start_name_server: StartNameServer,
) -> None:
    one, other = start_name_server(), start_name_server()
    other.stop()
    reader = stream(one, other, startingSequence="latest")
    with pytest.raises(ConnectFailed, match=other.address):
        reader.latestOffset(reader.initialOffset(), ALL)


def test_a_stream_that_is_given_numbers_begins_without_a_name_server_that_is_away(
    start_name_server: StartNameServer,
) -> None:
    one, other = start_name_server(), start_name_server()
    one.happen(5)
    other.stop()
    given = f'{{"{one.address}": 4, "{other.address}": 2}}'
    reader = stream(one, other, startingSequence=given)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert without_beginning(end) == {one.address: 6, other.address: 2}
    assert rows(reader, reader.partitions(start, end)) == events(one, 4, 5)
    stranger = stream(one, startingSequence=given)
    with pytest.raises(ConfigError, match=f"names {other.address}, which option nameServer does not"):
        stranger.latestOffset(stranger.initialOffset(), ALL)


def test_a_checkpoint_that_does_not_say_where_it_began(start_name_server: StartNameServer) -> None:
    """Of an older version: what was asked for is looked up again."""
    names = start_name_server()
    names.happen(5)
    reader = stream(names, startingSequence=2)
    planned = reader.partitions(reader.initialOffset(), {names.address: 4})
    assert rows(reader, planned) == events(names, 2, 3)


def test_a_stream_whose_events_were_cut_off_fails_or_goes_on(start_name_server: StartNameServer) -> None:
    names = start_name_server(**SMALL_FILES)
    for _ in range(10):
        names.happen(10)
    start, first = {names.address: 2}, names.journal.first_sequence
    with pytest.raises(EventsLost, match=f"the events 2 to {first - 1} are gone"):
        stream(names).latestOffset(start, ALL)
    lenient = stream(names, failOnDataLoss=False, maxEventsPerTrigger=5)
    end = lenient.latestOffset(start, ReadMaxRows(5))
    assert end == {names.address: first + 5}
    assert rows(lenient, lenient.partitions(start, end)) == events(names, *range(first, first + 5))


def test_a_stream_whose_journal_was_begun_anew_fails_or_begins_anew(start_name_server: StartNameServer) -> None:
    names = start_name_server()
    names.happen(3)
    start = {names.address: 90}
    with pytest.raises(EventsLost, match="begun anew"):
        stream(names).latestOffset(start, ALL)
    lenient = stream(names, failOnDataLoss=False)
    end = lenient.latestOffset(start, ALL)
    assert rows(lenient, lenient.partitions(start, end)) == events(names, 1, 2, 3)


def test_wrong_options_are_told_before_anything_begins() -> None:
    with pytest.raises(ConfigError, match="unknown option topic"):
        source("127.0.0.1:1", topic="T").schema()
