"""The table of consumer offsets."""

from __future__ import annotations

import pytest

from apogeemq.broker.tables.offsets import MAX_QUEUES, NO_OFFSET, OffsetTable
from apogeemq.errors import ProtocolError
from apogeemq.protocol import javajson

# As Apache's brokers write it: tabs, and numbers as keys without quotes.
APACHE_FILE = b"""{
\t"dataVersion":{
\t\t"counter":1,
\t\t"stateVersion":0,
\t\t"timestamp":1700000000000
\t},
\t"offsetTable":{
\t\t"T@G":{0:5,1:7,2:0
\t\t},
\t\t"%RETRY%G@G":{0:3
\t\t}
\t}
}"""


def test_commits_go_forward_and_back() -> None:
    table = OffsetTable()
    assert table.query("G", "T", 0) == NO_OFFSET
    table.commit("G", "T", 0, 5)
    assert (table.query("G", "T", 0), table.query("G", "T", 1)) == (5, NO_OFFSET)
    assert table.query("T", "G", 0) == NO_OFFSET
    table.commit("G", "T", 0, 3)
    assert table.query("G", "T", 0) == 3
    assert table.change_count == 2


def test_a_reset_is_seen_at_once_and_told_once() -> None:
    table = OffsetTable()
    table.commit("G", "T", 0, 5)
    table.reset("G", "T", 0, 2)
    table.reset("G", "T", 1, 9)
    table.commit("G", "T", 0, 6)  # a consumer that does not know yet
    assert table.query("G", "T", 0) == 2
    assert table.has_reset("G", "T", 0)
    assert not table.has_reset("G", "T", 7)
    assert not table.has_reset("other", "T", 0)
    assert table.take_reset("G", "T", 0) == 2
    assert table.take_reset("G", "T", 0) is None
    assert not table.has_reset("G", "T", 0)
    assert table.take_reset("other", "T", 0) is None
    assert table.take_reset("G", "T", 1) == 9
    assert table.resets == {}


def test_pulls_may_be_ahead_of_commits() -> None:
    table = OffsetTable()
    table.commit("G", "T", 0, 5)
    assert table.pull_offset("G", "T", 0) == 5
    table.set_pull_offset("G", "T", 0, 9)
    assert (table.pull_offset("G", "T", 0), table.query("G", "T", 0)) == (9, 5)
    assert table.change_count == 1  # how far pulls are is not kept


def test_topics_and_groups() -> None:
    table = OffsetTable()
    for group, topic in (("G", "T"), ("G", "U"), ("H", "T"), ("GG", "TT")):
        table.commit(group, topic, 0, 1)
        table.set_pull_offset(group, topic, 0, 1)
        table.reset(group, topic, 0, 1)
    assert table.topics_of("G") == {"T", "U"}
    assert table.groups_of("T") == {"G", "H"}
    table.remove_topic("T")
    assert set(table.table) == set(table.pulled) == set(table.resets) == {"U@G", "TT@GG"}
    table.remove_group("G")
    assert set(table.table) == {"TT@GG"}


def test_one_group_begins_where_another_is() -> None:
    table = OffsetTable()
    table.commit("G", "T", 0, 5)
    table.copy("G", "H", "T")
    table.copy("none", "I", "T")
    table.commit("G", "T", 0, 6)
    assert table.query("H", "T", 0) == 5
    assert table.groups_of("T") == {"G", "H"}


def test_there_is_a_most_to_what_is_remembered() -> None:
    table = OffsetTable(max_keys=2)
    for group in ("G", "H", "I"):
        table.commit(group, "T", 0, 1)
        table.set_pull_offset(group, "T", 0, 1)
    assert set(table.table) == set(table.pulled) == {"T@G", "T@H"}
    table.commit("G", "T", 0, 2)
    assert table.query("G", "T", 0) == 2


def test_there_is_a_most_to_the_queues_of_a_topic() -> None:
    table = OffsetTable()
    for queue_id in range(MAX_QUEUES + 3):
        table.commit("G", "T", queue_id, 1)
    table.commit("G", "T", 0, 2)
    assert len(table.table["T@G"]) == MAX_QUEUES
    assert table.query("G", "T", 0) == 2


def test_what_apache_wrote_is_read() -> None:
    table = OffsetTable()
    table.load(APACHE_FILE)
    assert table.table == {"T@G": {0: 5, 1: 7, 2: 0}, "%RETRY%G@G": {0: 3}}
    assert table.data_version.counter == 1


def test_what_is_written_is_as_apache_reads_it() -> None:
    table = OffsetTable()
    table.commit("G", "T", 0, 5)
    table.commit("G", "T", 1, 2**63 - 1)
    assert b'"offsetTable":{"T@G":{0:5,1:9223372036854775807}}' in table.content()
    again = OffsetTable()
    again.load(table.content())
    assert again.table == table.table


def test_a_file_may_have_any_number_of_queues() -> None:
    """More numbers as keys than any body a peer may send."""
    per_key = 1000
    count = javajson.MAX_BARE_KEYS // per_key + 1
    row = b"{" + b",".join(b"%d:1" % queue_id for queue_id in range(per_key)) + b"}"
    rows = b",".join(b'"T%d@G":%b' % (number, row) for number in range(count))
    table = OffsetTable()
    table.load(b'{"offsetTable":{' + rows + b"}}")
    assert len(table.table) == count
    assert table.query("G", f"T{count - 1}", per_key - 1) == 1


@pytest.mark.parametrize("content", [b"", b"{", b'{"offsetTable":{"T@G":[]}}', b'{"offsetTable":{"T@G":{"a":1}}}'])
def test_what_is_no_table_is_said(content: bytes) -> None:
    with pytest.raises(ProtocolError):
        OffsetTable().load(content)
