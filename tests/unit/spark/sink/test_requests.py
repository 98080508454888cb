from __future__ import annotations

from typing import Any

import pyarrow as pa

from apogeemq.filter.tags import java_hash
from apogeemq.model.flags import COMPRESSED
from apogeemq.protocol.batch import decode_batch
from apogeemq.protocol.compression import decompress
from apogeemq.spark.sink.columns import SinkColumns
from apogeemq.spark.sink.ids import IdScope
from apogeemq.spark.sink.requests import ANY_QUEUE, Request, requests_of
from apogeemq.spark.sink.rows import RowEncoder
from apogeemq.spark.sink.write_options import read_write_options


def made(columns: dict[str, list[Any]], **options: str) -> list[Request]:
    read = read_write_options({"nameServer": "x:1", **({} if "topic" in columns else {"topic": "T"}), **options})
    batch = pa.RecordBatch.from_pydict(columns)
    ids = IdScope("q").of_keys([b"%d" % number for number in range(batch.num_rows)])
    rows = RowEncoder(SinkColumns(present=frozenset(columns)), read).encode(batch, ids)
    return list(requests_of(rows, read, lambda topic: {"T": 4, "U": 2}[topic]))


def bodies(request: Request) -> list[bytes]:
    if request.properties is not None:
        return [decompress(request.body, request.system_flag)]
    return [body for _, body, _ in decode_batch(request.body)]


def numbered(count: int, size: int = 1) -> list[bytes]:
    return [b"%0*d" % (size, number) for number in range(count)]


def test_rows_share_requests_up_to_a_number() -> None:
    found = made({"body": numbered(10)}, batchMessages="4")
    assert [request.row_count for request in found] == [4, 4, 2]
    assert [body for request in found for body in bodies(request)] == numbered(10)
    assert {(request.topic, request.queue, request.properties) for request in found} == {("T", ANY_QUEUE, None)}


def test_rows_share_requests_up_to_a_size() -> None:
    found = made({"body": numbered(100, 100)}, batchBytes="1000")
    assert all(len(request.body) <= 1000 for request in found)
    assert len(found) < 30
    assert [body for request in found for body in bodies(request)] == numbered(100, 100)


def test_a_row_larger_than_a_request_goes_alone() -> None:
    found = made({"body": [b"a", b"b" * 2000, b"c"]}, batchBytes="1000")
    assert [request.row_count for request in found] == [1, 1, 1]


def test_requests_know_the_ids_of_their_rows() -> None:
    found = made({"body": numbered(5)}, batchMessages="2")
    expected = IdScope("q").of_keys([b"%d" % number for number in range(5)])
    assert b"".join(request.ids.tobytes() for request in found) == expected.tobytes()


def test_a_key_has_one_queue_and_keeps_its_order() -> None:
    keys = ["a", "b", "c", None, "a", "b", "c", "a"]
    found = made({"body": numbered(8), "sharding_key": keys}, batchMessages="2")
    in_order: dict[str | None, list[bytes]] = {}
    for request in found:
        for body in bodies(request):
            key = keys[int(body)]
            assert request.queue == (ANY_QUEUE if key is None else abs(java_hash(key)) % 4)
            in_order.setdefault(key, []).append(body)
    assert in_order == {"a": [b"0", b"4", b"7"], "b": [b"1", b"5"], "c": [b"2", b"6"], None: [b"3"]}
    ids = {one.tobytes() for request in found for one in request.ids}
    assert len(ids) == 8


def test_each_topic_has_its_requests() -> None:
    found = made({"body": numbered(6), "topic": ["T", "U", "T", "U", "T", "T"]})
    assert {request.topic: bodies(request) for request in found} == {
        "T": [b"0", b"2", b"4", b"5"],
        "U": [b"1", b"3"],
    }


def test_queues_are_counted_for_each_topic() -> None:
    keys = [f"k{number}" for number in range(20)]
    found = made({"body": numbered(20, 2), "topic": ["T", "U"] * 10, "sharding_key": keys})
    for request in found:
        for body in bodies(request):
            assert request.queue == abs(java_hash(keys[int(body)])) % {"T": 4, "U": 2}[request.topic]


def test_delayed_rows_go_alone_in_their_place() -> None:
    found = made({"body": numbered(6), "delay": [0, 0, 5, 0, 6, 6]})
    assert [(bodies(request), request.properties is None) for request in found] == [
        ([b"0", b"1"], True),
        ([b"2"], False),
        ([b"3"], True),
        ([b"4"], False),
        ([b"5"], False),
    ]
    assert found[1].properties is not None
    assert "DELAY\x015\x02" in found[1].properties


def test_rows_for_a_retry_topic_go_alone() -> None:
    found = made({"body": numbered(2)}, topic="%RETRY%group")
    assert [request.properties is None for request in found] == [False, False]


def test_large_bodies_are_compressed_if_that_helps() -> None:
    import os

    noise = os.urandom(200)
    found = made({"body": [b"x" * 200, b"y" * 50, noise]}, compression="zstd", compressAbove="100")
    assert [bodies(request) for request in found] == [[b"x" * 200], [b"y" * 50], [noise]]
    assert [bool(request.system_flag & COMPRESSED) for request in found] == [True, False, False]
    assert len(found[0].body) < 100


def test_no_rows_no_requests() -> None:
    empty = pa.array([], pa.binary())
    read = read_write_options({"nameServer": "x:1", "topic": "T"})
    rows = RowEncoder(SinkColumns(present=frozenset(("body",))), read).encode(
        pa.RecordBatch.from_pydict({"body": empty}), IdScope("q").of_keys([])
    )
    assert list(requests_of(rows, read, lambda _: 1)) == []
