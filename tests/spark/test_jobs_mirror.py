"""The mirror: each message once, in the order of its sharding key, and none that has been over there."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from apogeemq.blocking import Message, ReceivedMessage
from apogeemq.errors import ConfigError
from apogeemq.model.properties import SHARDING_KEY
from apogeemq.spark.jobs.mirror import ORIGIN_ID, ORIGINS, mirrored
from tests.spark.messages import messages_of
from tests.spark.ready import run_ready
from tests.spark.worlds import World


def parameters(here: World, there: World, topic: str) -> dict[str, str]:
    return {"name_server": here.address, "to_name_server": there.address, "topics": topic}


def by_key(found: list[ReceivedMessage]) -> dict[str, list[bytes]]:
    """Bodies in the order of their queues."""
    bodies: dict[str, list[bytes]] = defaultdict(list)
    for message in found:
        bodies[message.properties.get(SHARDING_KEY, "")].append(message.body)
    return dict(bodies)


def test_messages_arrive_once_in_the_order_of_their_keys(spark: SparkSession, any_world: World, tmp_path: Path) -> None:
    """To the same cluster under another name: it is the same work for the sink."""
    topic = any_world.topic("mirrored")
    prefix = any_world.name("copy")
    any_world.create_topic(prefix + topic, 3)
    sent = any_world.send(
        *(
            Message(
                topic,
                b"no. %d" % number,
                sharding_key=f"customer {number % 7}",
                tags=f"tag{number % 2}",
                keys=[f"k{number}", "all"],
                properties={"colour": "blue"},
            )
            for number in range(150)
        )
    )
    given = {**parameters(any_world, any_world, topic), "prefix": prefix, "cluster": "east", "to_cluster": "west"}
    run_ready(spark, "mirror", tmp_path / "state", **given)
    any_world.send(*(Message(topic, b"late %d" % number, sharding_key="customer 1") for number in range(10)))
    run_ready(spark, "mirror", tmp_path / "state", **given)

    found = messages_of(any_world, prefix + topic)
    late = [b"late %d" % number for number in range(10)]
    expected = {f"customer {key}": [b"no. %d" % number for number in range(key, 150, 7)] for key in range(7)}
    expected["customer 1"] += late
    assert by_key(found) == expected
    ids = {result.message_id for result in sent}
    for message in found:
        if message.body in late:
            continue
        number = int(message.body.removeprefix(b"no. "))
        assert (message.tags, message.keys) == (f"tag{number % 2}", [f"k{number}", "all"])
        assert message.properties["colour"] == "blue"
        assert message.properties[ORIGINS] == "east"
        ids.discard(message.properties[ORIGIN_ID])
    assert ids == set()


def test_two_mirrors_towards_each_other_end(spark: SparkSession, world: World, tmp_path: Path) -> None:
    """What has been in a cluster does not come back to it."""
    topic, there = world.topic("ring"), world.name("there")
    world.create_topic(there + topic, 2)
    world.create_topic("back" + there + topic, 2)
    world.fill(topic, (b"no. %d" % number for number in range(20)))
    forth = {**parameters(world, world, topic), "prefix": there, "cluster": "east", "to_cluster": "west"}
    run_ready(spark, "mirror", tmp_path / "forth", **forth)
    back = {**parameters(world, world, there + topic), "prefix": "back", "cluster": "west", "to_cluster": "east"}
    world.fill(there + topic, [b"born over there"])
    run_ready(spark, "mirror", tmp_path / "back", **back)
    assert len(messages_of(world, there + topic)) == 21
    assert [message.body for message in messages_of(world, "back" + there + topic)] == [b"born over there"]


def test_messages_without_a_key_can_keep_the_order_of_their_queue(
    spark: SparkSession, world: World, tmp_path: Path
) -> None:
    topic, prefix = world.topic("unkeyed"), world.name("copy")
    world.create_topic(prefix + topic, 2)
    queues = world.queues(topic)
    for number in range(40):
        world.producer.send(topic, b"%d" % number, queue=queues[number % len(queues)])
    given = {**parameters(world, world, topic), "prefix": prefix, "unkeyed": "queue"}
    run_ready(spark, "mirror", tmp_path / "state", **given)
    found = by_key(messages_of(world, prefix + topic))
    assert sorted(found.values()) == sorted(
        [b"%d" % number for number in range(first, 40, len(queues))] for first in range(len(queues))
    )


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"cluster": "a,b", "to_cluster": "c"}, "cluster is 'a,b': expected a name without commas"),
        ({"cluster": "a", "to_cluster": ""}, "to_cluster is '': expected a name"),
        ({"cluster": "a", "to_cluster": "a"}, "are both 'a'"),
        ({"cluster": "a", "to_cluster": "b", "unkeyed": "x"}, "unkeyed is 'x': expected spread or queue"),
    ],
)
def test_what_cannot_work_is_refused(spark: SparkSession, given: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        mirrored(spark.range(1).toDF("id"), **given)
