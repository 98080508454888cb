"""How far delay levels have been delivered."""

from __future__ import annotations

import pytest

from apogeemq.broker.tables.delay_offsets import DelayOffsets
from apogeemq.errors import ProtocolError

APACHE_FILE = b"""{
\t"dataVersion":{
\t\t"counter":0,
\t\t"stateVersion":0,
\t\t"timestamp":1700000000000
\t},
\t"offsetTable":{1:12,3:4,18:0
\t}
}"""


def test_what_apache_wrote_is_read() -> None:
    offsets = DelayOffsets()
    offsets.load(APACHE_FILE)
    assert offsets.table == {1: 12, 3: 4, 18: 0}
    assert (offsets.get(1), offsets.get(2)) == (12, 0)
    assert offsets.change_count == 0


def test_only_changes_count_and_what_is_written_is_as_apache_reads_it() -> None:
    offsets = DelayOffsets()
    for level, offset in ((18, 1), (2, 5), (2, 5), (2, 6)):
        offsets.set(level, offset)
    assert offsets.change_count == 3
    assert offsets.content().endswith(b'"offsetTable":{2:6,18:1}}')
    again = DelayOffsets()
    again.load(offsets.content())
    assert again.table == offsets.table


@pytest.mark.parametrize("content", [b"", b"{", b'{"offsetTable":{"x":1}}'])
def test_what_is_no_table_is_said(content: bytes) -> None:
    with pytest.raises(ProtocolError):
        DelayOffsets().load(content)
