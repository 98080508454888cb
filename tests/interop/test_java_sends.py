"""Apache's Java producer sends to our broker in every way it knows, and its consumer reads back what was sent."""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections import defaultdict

import pytest

from tests.interop.java_cluster import BROKER, Clients, Cluster, bodies, queue
from tests.peers.java_client import JavaError
from tests.peers.process import wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

MESSAGE_ILLEGAL = 13
NOT_FOUND_TOPIC = 10_005
"""Not the broker's word: the client finds no queue in the route."""
MAX_BODY = 4 << 20


def texts(count: int) -> list[str]:
    return [f"message {number}" for number in range(count)]


def test_sync_sends_go_round_the_queues(cluster: Cluster, clients: Clients) -> None:
    cluster.create_topic("Sync", queues=4)
    results = clients.producer().send("Sync", *texts(20))
    offsets = defaultdict(list)
    for result in results:
        assert (result["status"], result["broker"], result["topic"]) == ("SEND_OK", BROKER, "Sync")
        offsets[result["queue"]].append(result["offset"])
    assert offsets == {queue_id: [0, 1, 2, 3, 4] for queue_id in range(4)}
    assert len({result["msgId"] for result in results}) == 20

    consumer = clients.push("Sync-readers", {"Sync": "*"})
    assert sorted(bodies(consumer.received(20))) == sorted(texts(20))


def test_offset_message_ids_name_the_broker_and_the_place_in_the_log(cluster: Cluster, clients: Clients) -> None:
    results = clients.producer().send("Placed", *texts(3))
    places = []
    for result in results:
        raw = bytes.fromhex(result["offsetMsgId"])
        host, port = ipaddress.ip_address(raw[:4]), int.from_bytes(raw[4:8])
        assert f"{host}:{port}" == cluster.broker.address
        places.append(int.from_bytes(raw[8:]))
    assert places == sorted(set(places))


def test_async_sends(clients: Clients) -> None:
    results = clients.producer().send("Async", *texts(100), how="async")
    assert {result["status"] for result in results} == {"SEND_OK"}
    consumer = clients.push("Async-readers", {"Async": "*"})
    assert sorted(bodies(consumer.received(100))) == sorted(texts(100))


def test_one_way_sends(cluster: Cluster, clients: Clients) -> None:
    cluster.create_topic("OneWay")
    clients.producer().send("OneWay", *texts(50), how="oneway")
    consumer = clients.push("OneWay-readers", {"OneWay": "*"})
    assert sorted(bodies(consumer.received(50))) == sorted(texts(50))


def test_a_batch_is_stored_together(cluster: Cluster, clients: Clients) -> None:
    cluster.create_topic("Batch")
    messages = [{"body": text, "tags": f"T{n % 2}", "keys": f"k{n}"} for n, text in enumerate(texts(30))]
    (result,) = clients.producer().send("Batch", *messages, how="batch")
    assert result["status"] == "SEND_OK"
    assert len(result["msgId"].split(",")) == len(result["offsetMsgId"].split(",")) == 30
    consumer = clients.push("Batch-readers", {"Batch": "T1"})
    found = sorted(consumer.received(15), key=lambda message: message["offset"])
    assert bodies(found) == texts(30)[1::2]
    assert {message["queue"] for message in found} == {result["queue"]}
    assert [message["keys"] for message in found] == [f"k{n}" for n in range(1, 30, 2)]
    assert [message["msgId"] for message in found] == result["msgId"].split(",")[1::2]


def test_ordered_sends_keep_to_their_queue(cluster: Cluster, clients: Clients) -> None:
    cluster.create_topic("Ordered", queues=4)
    messages = [{"body": f"order {n % 7} step {n // 7}", "order": n % 7} for n in range(70)]
    results = clients.producer().send("Ordered", *messages, how="ordered")
    assert [result["queue"] for result in results] == [n % 7 % 4 for n in range(70)]


def test_sends_to_a_chosen_queue(cluster: Cluster, clients: Clients) -> None:
    cluster.create_topic("Chosen", queues=4)
    results = clients.producer().send("Chosen", *texts(5), how="queue", queue=queue("Chosen", 3))
    assert [(result["queue"], result["offset"]) for result in results] == [(3, n) for n in range(5)]


def test_a_queue_that_does_not_exist_is_refused(cluster: Cluster, clients: Clients) -> None:
    cluster.create_topic("Narrow", queues=2)
    with pytest.raises(JavaError) as refused:
        clients.producer().send("Narrow", "message", how="queue", queue=queue("Narrow", 7))
    assert refused.value.type_name == "MQBrokerException"


def test_a_topic_is_made_by_the_first_send(cluster: Cluster, clients: Clients) -> None:
    producer = clients.producer(defaultTopicQueueNums=3)
    (result,) = producer.send("Automatic", "first")
    assert result["status"] == "SEND_OK"
    cluster.wait_for_route("Automatic")
    route = cluster.ask("topicRoute -t Automatic")
    assert re.search(r'"perm":6,\s*"readQueueNums":3,\s*"topicSysFlag":0,\s*"writeQueueNums":3', route), route
    assert producer.call("queues", topic="Automatic") == [["Automatic", BROKER, n] for n in range(3)]


def test_a_client_creates_a_topic(cluster: Cluster, clients: Clients) -> None:
    producer = clients.producer()
    producer.call("createTopic", topic="Created", queues=5)
    cluster.wait_for_route("Created")
    assert len(producer.call("queues", topic="Created")) == 5


@pytest.mark.parametrize("kind", ["ZLIB", "LZ4", "ZSTD"])
def test_compressed_bodies(cluster: Cluster, clients: Clients, kind: str) -> None:
    topic = f"Compressed-{kind}"
    producer = clients.producer(compressType=kind)
    (result,) = producer.send(topic, {"body": "0123456789", "times": 10_000})
    (message,) = clients.push(f"{topic}-readers", {topic: "*"}).received(1)
    digest = hashlib.sha1(b"0123456789" * 10_000, usedforsecurity=False).hexdigest()
    assert message["body"] == f"100000 bytes, sha1 {digest}"
    assert message["storeSize"] < 5_000
    found = producer.call("view", topic=topic, message=result["msgId"])
    assert found["body"] == message["body"]


def test_random_bodies_of_many_sizes(clients: Clients) -> None:
    producer = clients.producer()
    sizes = [1, 4_095, 4_096, 4_097, 65_536, 1_000_000]
    producer.send("Sizes", *({"random": size} for size in sizes))
    found = clients.push("Sizes-readers", {"Sizes": "*"}).received(len(sizes))
    described = [int(body.split()[0]) for body in bodies(found) if " bytes, sha1" in body]
    assert sorted(described) == sizes[1:]


def test_unicode(clients: Clients) -> None:
    text = 'Grüße, 世界, мир, 🚀\u0000\t"quoted" \\ ünïcode'
    form = {"body": text, "tags": "标签", "keys": "ключ 鍵", "properties": {"ö": "ß🚀", "имя": "值 = 1"}, "flag": 7}
    producer = clients.producer()
    (result,) = producer.send("Unicode", form)
    (message,) = clients.push("Unicode-readers", {"Unicode": "标签"}).received(1)
    assert message["body"] == text
    assert (message["tags"], message["keys"], message["flag"]) == ("标签", "ключ 鍵", 7)
    assert message["properties"].items() >= {"ö": "ß🚀", "имя": "值 = 1"}.items()
    assert message["msgId"] == result["msgId"]


def test_the_largest_body(clients: Clients) -> None:
    producer = clients.producer(maxMessageSize=MAX_BODY * 2, compressMsgBodyOverHowmuch=MAX_BODY * 2)
    (result,) = producer.send("Large", {"random": MAX_BODY})
    assert result["status"] == "SEND_OK"
    with pytest.raises(JavaError) as refused:
        producer.send("Large", {"random": MAX_BODY + 1})
    assert (refused.value.type_name, refused.value.code) == ("MQBrokerException", MESSAGE_ILLEGAL)
    (message,) = clients.push("Large-readers", {"Large": "*"}).received(1)
    assert message["body"].startswith(f"{MAX_BODY} bytes, sha1 ")


def test_too_long_properties_are_refused(cluster: Cluster, clients: Clients) -> None:
    cluster.create_topic("Properties", queues=1)
    producer = clients.producer()
    producer.send("Properties", {"body": "fits", "properties": {"long": "x" * 30_000}})
    with pytest.raises(JavaError) as refused:
        producer.send("Properties", {"body": "does not", "properties": {"long": "x" * 40_000}})
    assert refused.value.code == MESSAGE_ILLEGAL
    assert producer.call("offsets", queue=queue("Properties"))["max"] == 1


def test_a_topic_that_may_not_be_written(cluster: Cluster, clients: Clients) -> None:
    cluster.create_topic("ReadOnly", queues=1)
    clients.producer().send("ReadOnly", "early")
    assert "success" in cluster.ask(f"updateTopicPerm -b {cluster.broker.address} -t ReadOnly -p 4")
    wait_for(lambda: '"perm":4' in cluster.ask("topicRoute -t ReadOnly"), "the route says so")
    with pytest.raises(JavaError) as refused:
        clients.producer().send("ReadOnly", "late")
    assert (refused.value.type_name, refused.value.code) == ("MQClientException", NOT_FOUND_TOPIC)
    assert bodies(clients.push("ReadOnly-readers", {"ReadOnly": "*"}).received(1)) == ["early"]


def test_system_topics_are_not_for_sends(clients: Clients) -> None:
    with pytest.raises(JavaError) as refused:
        clients.producer().send("SCHEDULE_TOPIC_XXXX", "message")
    assert "forbidden" in refused.value.message


def test_the_vip_channel(clients: Clients) -> None:
    producer = clients.producer(vipChannelEnabled=True)
    (result,) = producer.send("Vip", "through the second port")
    assert result["status"] == "SEND_OK"
    consumer = clients.push("Vip-readers", {"Vip": "*"}, {"vipChannelEnabled": True})
    assert bodies(consumer.received(1)) == ["through the second port"]


def test_a_namespace_is_part_of_the_names(cluster: Cluster, clients: Clients) -> None:
    producer = clients.producer(namespace="Space")
    (result,) = producer.send("Named", "inside")
    assert result["topic"] == "Named"
    consumer = clients.push("Named-readers", {"Named": "*"}, {"namespace": "Space"})
    (message,) = consumer.received(1)
    assert (message["body"], message["topic"]) == ("inside", "Named")
    assert "Space%Named" in cluster.ask("topicList").split()
    clients.producer().send("Named", "outside")
    assert bodies(clients.push("Other-readers", {"Named": "*"}).received(1)) == ["outside"]


def test_a_second_generation_namespace_travels_beside_the_names(cluster: Cluster, clients: Clients) -> None:
    (result,) = clients.producer(namespaceV2="Space2").send("NamedToo", "inside")
    assert result["status"] == "SEND_OK"
    consumer = clients.push("NamedToo-readers", {"NamedToo": "*"}, {"namespaceV2": "Space2"})
    assert bodies(consumer.received(1)) == ["inside"]
    assert "NamedToo" in cluster.ask("topicList").split()
