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
from tests.spark.conftest import MakeWorld
from tests.spark.messages import messages_of
from tests.spark.ready import run_ready
from tests.spark.worlds import World

pytestmark = pytest.mark.timeout(300)


def parameters(here: World, there: World, topic: str, to_topic: str = "") -> dict[str, str]:
    return {
        "name_server": here.address,
        "to_name_server": there.address,
        "topics": topic,
        "to_topics": to_topic or topic,
        "cluster": "east",
        "to_cluster": "west",
    }


def by_key(found: list[ReceivedMessage]) -> dict[str, list[bytes]]:
    """Bodies in the order of their queues."""
    bodies: dict[str, list[bytes]] = defaultdict(list)
    for message in found:
        bodies[message.properties.get(SHARDING_KEY, "")].append(message.body)
    return dict(bodies)


def test_messages_arrive_once_in_the_order_of_their_keys(
    spark: SparkSession, any_world: World, make_world: MakeWorld, tmp_path: Path
) -> None:
    topic, there = any_world.topic("mirrored"), make_world()
    there.create_topic(topic, 3)
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
    given = parameters(any_world, there, topic)
    run_ready(spark, "mirror", tmp_path / "state", **given)
    any_world.send(*(Message(topic, b"late %d" % number, sharding_key="customer 1") for number in range(10)))
    run_ready(spark, "mirror", tmp_path / "state", **given)

    found = messages_of(there, topic)
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
    topic, there, back = world.topic("ring"), world.topic("there"), world.topic("back")
    world.fill(topic, (b"no. %d" % number for number in range(20)))
    run_ready(spark, "mirror", tmp_path / "forth", **parameters(world, world, topic, there))
    world.fill(there, [b"born over there"])
    home = {**parameters(world, world, there, back), "cluster": "west", "to_cluster": "east"}
    run_ready(spark, "mirror", tmp_path / "back", **home)
    assert len(messages_of(world, there)) == 21
    assert [message.body for message in messages_of(world, back)] == [b"born over there"]


def test_messages_without_a_key_can_keep_the_order_of_their_queue(
    spark: SparkSession, world: World, tmp_path: Path
) -> None:
    topic, copy = world.topic("unkeyed"), world.topic("copy")
    queues = world.queues(topic)
    for number in range(40):
        world.producer.send(topic, b"%d" % number, queue=queues[number % len(queues)])
    run_ready(spark, "mirror", tmp_path / "state", **parameters(world, world, topic, copy), unkeyed="queue")
    found = by_key(messages_of(world, copy))
    assert sorted(found.values()) == sorted(
        [b"%d" % number for number in range(first, 40, len(queues))] for first in range(len(queues))
    )


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"cluster": "a,b"}, "cluster is 'a,b': expected a name without commas"),
        ({"to_cluster": ""}, "to_cluster is '': expected a name"),
        ({"cluster": "west"}, "are both 'west'"),
        ({"unkeyed": "x"}, "unkeyed is 'x': expected spread or queue"),
        ({"to_topics": "one,two"}, "to_topics is 'one,two': expected as many names as in topics, 'one'"),
    ],
)
def test_what_cannot_work_is_refused(spark: SparkSession, given: dict[str, str], problem: str) -> None:
    usual = {"topics": "one", "to_topics": "two", "cluster": "east", "to_cluster": "west"}
    with pytest.raises(ConfigError, match=problem):
        mirrored(spark.range(1).toDF("id"), **{**usual, **given})
