"""The records of a batch are those its messages would have had alone."""

from __future__ import annotations

from zlib import crc32

import pytest

from apogeemq.model.flags import BORN_HOST_IPV6
from apogeemq.protocol.record import CRC_MASK, record_size, topic_part
from apogeemq.protocol.record_writing import BatchRecords, encode_record

FLAGS = (0, -1, 2**31 - 1)


@pytest.mark.parametrize("topic_name", [b"T1", b"T" * 200])
def test_records_of_a_batch_are_the_same_as_single_ones(topic_name: bytes) -> None:
    born, stored, topic = b"b" * 20, b"s" * 8, topic_part(topic_name)
    bodies = [(b"one", b""), (b"", b"a\x01b\x02"), (b"three", b"c\x01d\x02")]
    sizes = [record_size(BORN_HOST_IPV6, len(topic[1]), len(body), len(properties)) for body, properties in bodies]
    crcs = [crc32(body) & CRC_MASK for body, _ in bodies]
    alike = (BORN_HOST_IPV6, 1, born, 2, stored, 4, 9)
    single = [
        encode_record(size, topic, 3, FLAGS[n], 2**40 + n, 2**50 + n, *alike, crcs[n], *bodies[n])
        for n, size in enumerate(sizes)
    ]
    records = BatchRecords(topic, 3, *alike)
    for n, size in enumerate(sizes):
        records.add(size, FLAGS[n], 2**40 + n, 2**50 + n, crcs[n], *bodies[n])
    assert records.joined() == b"".join(single)
    assert [len(record) for record in single] == sizes
