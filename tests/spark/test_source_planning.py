"""What the source plans and reads, of our servers and of Apache's; no Spark session is needed for that."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, In, LessThan, Not

from apogeemq.blocking import PullConsumer
from apogeemq.errors import ConfigError, DataLost, NoRoute
from apogeemq.model.messages import Message
from apogeemq.protocol.codes import RequestCode
from apogeemq.runtime.clock import now_ms
from apogeemq.spark.cluster import cluster_of
from tests.peers.process import wait_for
from tests.spark.direct_reads import Stream, each_once, numbered, options_of, planned_batch, read_batch, read_until
from tests.spark.worlds import World


def a_moment() -> int:
    """A time that lies between what was stored before and what will be stored next."""
    before = now_ms() + 1
    wait_for(lambda: now_ms() > before, "the clock goes on")
    return before


# -- batches -------------------------------------------------------------------------------------------------


def test_a_batch_holds_every_message_once(any_world: World) -> None:
    topic = any_world.topic(queues=4)
    sent = numbered(3_000)
    any_world.fill(topic, sent)
    assert read_batch(any_world, subscribe=topic) == each_once(sent)


def test_small_queues_are_one_task_and_more_are_made_where_wanted(world: World) -> None:
    topic = world.topic(queues=4)
    sent = numbered(4_000)
    world.fill(topic, sent)
    assert len(planned_batch(world, subscribe=topic)[1]) == 1
    assert len(planned_batch(world, subscribe=topic, minPartitions="16")[1]) == 16
    assert len(planned_batch(world, subscribe=topic, maxRecordsPerPartition="250")[1]) == 16
    assert read_batch(world, subscribe=topic, minPartitions="16") == each_once(sent)


def test_topics_by_pattern_and_queues_by_number(any_world: World) -> None:
    word = any_world.name("pattern")
    first, second = f"{word}-x", f"{word}-y"
    for topic in (first, second):
        any_world.create_topic(topic, 2)
        any_world.fill(topic, numbered(1_000, topic))
    both = each_once(numbered(1_000, first) + numbered(1_000, second))
    assert read_batch(any_world, subscribePattern=f"{word}-.*") == both
    assert read_batch(any_world, subscribe=f"{first},{second}") == both
    assigned = json.dumps({first: {"broker-a": [0, 1], "broker-b": [0]}})
    parts = [
        read_batch(any_world, assign=json.dumps({first: {broker: [number]}}))
        for broker, number in (("broker-a", 0), ("broker-a", 1), ("broker-b", 0))
    ]
    assert read_batch(any_world, assign=assigned) == sum(parts, Counter())


def test_offsets_of_queues(any_world: World) -> None:
    topic = any_world.topic(queues=1)
    queue_a, queue_b = any_world.queues(topic)
    for queue in (queue_a, queue_b):
        messages = [Message(topic, body) for body in numbered(10, queue.broker_name)]
        any_world.put(queue, messages)
    starting = json.dumps({topic: {"broker-a": {"0": 4}, "broker-b": {"0": -2}}})
    ending = json.dumps({topic: {"broker-a": {"0": 6}, "broker-b": -1}})
    found = read_batch(any_world, subscribe=topic, startingOffsets=starting, endingOffsets=ending)
    assert found == each_once([b"broker-a 4", b"broker-a 5", *numbered(10, "broker-b")])


def test_offsets_must_fit_the_queues(world: World) -> None:
    topic = world.topic(queues=2)
    missing = json.dumps({topic: {"broker-a": -2, "broker-b": {"0": 0}}})
    with pytest.raises(ConfigError, match=f"no offset or time is given for queue 1 of topic {topic} on broker-b"):
        planned_batch(world, subscribe=topic, startingOffsets=missing)
    strange = json.dumps({topic: {"broker-a": -2, "broker-b": -2, "broker-c": -2}})
    with pytest.raises(ConfigError, match=f"queues that there are not: {topic} → broker-c"):
        planned_batch(world, subscribe=topic, startingOffsets=strange)
    with pytest.raises(ConfigError, match="option assign names what there is not: queue 7"):
        planned_batch(world, assign=json.dumps({topic: {"broker-a": [0, 7]}}))


def test_offsets_that_are_not_there_are_lost_or_left_out(any_world: World) -> None:
    topic = any_world.topic(queues=1)
    queue = any_world.queues(topic)[0]
    any_world.put(queue, [Message(topic, body) for body in numbered(5)])
    given = {
        "subscribe": topic,
        "startingOffsets": json.dumps({topic: {"broker-a": {"0": 3}, "broker-b": -2}}),
        "endingOffsets": json.dumps({topic: {"broker-a": {"0": 9}, "broker-b": -1}}),
    }
    lost = rf"messages 5 to 8 of topic {topic}, broker broker-a, queue 0 are lost: the queue ends at 5"
    with pytest.raises(DataLost, match=lost):
        planned_batch(any_world, **given)
    assert read_batch(any_world, **given, failOnDataLoss="false") == each_once([b"m 3", b"m 4"])
    backwards = {**given, "endingOffsets": json.dumps({topic: {"broker-a": {"0": 2}, "broker-b": -1}})}
    with pytest.raises(ConfigError, match="startingOffsets is 3 and endingOffsets 2 in queue 0"):
        planned_batch(any_world, **backwards)


def test_times(any_world: World) -> None:
    topic = any_world.topic(queues=2)
    moments: list[int] = []
    for word in ("old", "middle", "new"):
        any_world.fill(topic, numbered(2_000, word))
        moments.append(a_moment())
    middle = {"startingTimestamp": str(moments[0]), "endingTimestamp": str(moments[1])}
    assert read_batch(any_world, subscribe=topic, **middle) == each_once(numbered(2_000, "middle"))
    by_queue = json.dumps({topic: {"broker-a": moments[1], "broker-b": {"0": moments[1], "1": moments[1]}}})
    found = read_batch(any_world, subscribe=topic, startingOffsetsByTimestamp=by_queue)
    assert found == each_once(numbered(2_000, "new"))
    assert read_batch(any_world, subscribe=topic, startingTimestamp=str(moments[2])) == Counter()
    assert read_batch(any_world, subscribe=topic, endingTimestamp="1") == Counter()
    backwards = {"startingOffsetsByTimestamp": by_queue, "endingOffsetsByTimestamp": json.dumps({topic: 1})}
    with pytest.raises(ConfigError, match=rf"startingOffsetsByTimestamp is {moments[1]} and ending.* 1 in queue 0"):
        planned_batch(any_world, subscribe=topic, **backwards)


def test_a_group_that_is_beyond_the_end_has_nothing_to_read(world: World) -> None:
    topic, group = world.topic(queues=1), world.name("group")
    world.fill(topic, numbered(2_000))
    moment = a_moment()
    world.fill(topic, numbered(2_000, "later"))
    given = {"subscribe": topic, "groupId": group, "startingOffsets": "committed"}
    cluster, queues = cluster_of(options_of(world, given).connection, group), world.queues(topic)
    ends = cluster.max_offsets(queues)
    assert read_batch(world, **given).total() == 4_000  # brokers know the group from then on
    cluster.commit(ends)
    wait_for(lambda: cluster.committed(queues) == ends, "offsets of the group")
    assert read_batch(world, **given, endingTimestamp=str(moment)) == Counter()


def test_a_topic_that_is_not_there_is_named(any_world: World) -> None:
    with pytest.raises(NoRoute, match="Spark-nothing"):
        planned_batch(any_world, subscribe="Spark-nothing")
    assert planned_batch(any_world, subscribePattern="Spark-nothing.*")[1] == []


def test_a_topic_that_may_not_be_read_is_no_obstacle_to_others(world: World, caplog: pytest.LogCaptureFixture) -> None:
    topic = world.topic("readable")
    world.fill(topic, numbered(10))
    pattern = f"{topic}.*"
    stream = Stream(world, subscribePattern=pattern, startingOffsets="earliest")
    assert stream.everything() == each_once(numbered(10))

    hidden = f"{topic}-hidden"
    world.create_topic(hidden)
    settings = {"topic": hidden, "defaultTopic": "TBW102", "readQueueNums": "2", "writeQueueNums": "2", "perm": "2"}
    settings |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    for number in range(2):
        assert world.ask_broker(number, RequestCode.UPDATE_AND_CREATE_TOPIC, settings).code == 0
    wait_for(lambda: not world.queues(hidden), "the name server knows")
    world.fill(topic, numbered(10, "more"))
    assert read_batch(world, subscribePattern=pattern) == each_once(numbered(10) + numbered(10, "more"))
    assert read_until(stream, 10) == each_once(numbered(10, "more"))
    assert "trying again" not in caplog.text
    with pytest.raises(NoRoute, match=f"no queue of topic {hidden} can be read"):
        planned_batch(world, subscribe=hidden)


def test_tags_and_their_hashes(any_world: World) -> None:
    topic = any_world.topic(queues=1)
    any_world.fill(topic, numbered(500, "Aa"), tags="Aa")
    any_world.fill(topic, numbered(500, "BB"), tags="BB")  # the same hash
    any_world.fill(topic, numbered(500, "none"))
    assert read_batch(any_world, subscribe=topic, tags="Aa") == each_once(numbered(500, "Aa"))
    assert read_batch(any_world, subscribe=topic, tags="Aa || BB").total() == 1_000
    assert read_batch(any_world, subscribe=topic, tags="none") == Counter()


def test_dead_letters_and_retries_are_topics_like_others(any_world: World) -> None:
    topic, group = any_world.topic(queues=1), any_world.name("group")
    any_world.fill(topic, numbered(4))
    with PullConsumer(any_world.address, group) as consumer:
        for queue, end in any_world.max_offsets(topic).items():
            for offset in range(end):
                message = consumer.pull(queue, offset, 1).messages[0]
                consumer.send_back(message, 1 if offset % 2 else -1)  # in a second, or never
    assert read_batch(any_world, subscribe=f"%DLQ%{group}") == each_once([b"m 0", b"m 2"])
    retries = Stream(any_world, subscribe=f"%RETRY%{group}", startingOffsets="earliest")
    assert read_until(retries, 2) == each_once([b"m 1", b"m 3"])


def test_tls(any_world: World) -> None:
    topic = any_world.topic(queues=1)
    any_world.fill(topic, numbered(10))
    assert read_batch(any_world, subscribe=topic, **{"tls.enable": "true"}) == each_once(numbered(10))


def test_sql_is_for_the_broker(apache_world: World) -> None:
    topic = apache_world.topic(queues=1)
    for price in range(10):
        apache_world.fill(topic, numbered(5, f"p{price}"), properties={"price": str(price)})
    found = read_batch(apache_world, subscribe=topic, sql="price BETWEEN 3 AND 4")
    assert found == each_once(numbered(5, "p3") + numbered(5, "p4"))


# -- filters of a query --------------------------------------------------------------------------------------


def test_filters_narrow_what_is_read(any_world: World) -> None:
    topic = any_world.topic(queues=2)
    for queue in any_world.queues(topic):
        messages = [
            Message(topic, body, tags="even" if index % 2 else "odd") for index, body in enumerate(numbered(20))
        ]
        any_world.put(queue, messages)
    filters = [
        EqualTo(("queue_id",), 1),
        In(("broker",), ("broker-b", "broker-c")),
        GreaterThanOrEqual(("queue_offset",), 5),
        LessThan(("queue_offset",), 8),
        EqualTo(("tags",), "even"),
        Not(EqualTo(("body",), b"m 5")),
    ]
    _, partitions = planned_batch(any_world, filters, subscribe=topic)
    assert [one.ranges for one in partitions] == [((topic, "broker-b", 1, 5, 9),)]
    assert partitions[0].wanted.tags == "even"
    assert read_batch(any_world, filters, subscribe=topic) == each_once([b"m 5", b"m 7"])
    assert planned_batch(any_world, [EqualTo(("topic",), "another")], subscribe=topic)[1] == []


def test_times_of_a_query_are_looked_up(any_world: World) -> None:
    topic = any_world.topic(queues=1)
    any_world.fill(topic, numbered(10))
    year = datetime.now(UTC).year
    past = [LessThan(("store_timestamp",), datetime(year - 1, 1, 1, tzinfo=UTC))]
    future = [GreaterThanOrEqual(("store_timestamp",), datetime(year + 2, 1, 1, tzinfo=UTC))]
    both = [LessThan(("store_timestamp",), datetime(year + 2, 1, 1, tzinfo=UTC))]
    assert planned_batch(any_world, past, subscribe=topic)[1] == []
    assert planned_batch(any_world, future, subscribe=topic)[1] == []
    assert read_batch(any_world, both, subscribe=topic) == each_once(numbered(10))


# -- streams -------------------------------------------------------------------------------------------------


def test_a_stream_reads_what_is_new(any_world: World) -> None:
    topic = any_world.topic(queues=2)
    any_world.fill(topic, numbered(100, "old"))
    stream = Stream(any_world, subscribe=topic)
    assert stream.batch() is None
    any_world.fill(topic, numbered(2_000, "new"))
    assert stream.batch() == each_once(numbered(2_000, "new"))
    assert stream.batch() is None
    assert Stream(any_world, subscribe=topic, startingOffsets="earliest").everything().total() == 2_100


def test_limits_of_a_batch(any_world: World) -> None:
    topic = any_world.topic(queues=2)
    sent = [body.ljust(100) for body in numbered(4_000)]
    any_world.fill(topic, sent)
    given = {"subscribe": topic, "startingOffsets": "earliest"}
    stream = Stream(any_world, **given, maxOffsetsPerTrigger="1500")
    sizes = [some.total() for some in iter(stream.batch, None)]
    assert sizes == [1500, 1500, 1000]
    stream = Stream(any_world, **given, maxBytesPerTrigger="200000")
    sizes = [some.total() for some in iter(stream.batch, None)]
    assert sum(sizes) == 4_000
    assert 2 < len(sizes) < 8, "messages of about 200 bytes with all that belongs to them"
    stream = Stream(any_world, **given, maxOffsetsPerTrigger="10")
    assert stream.all_at_once() == each_once(sent), "Spark asks for everything: limits do not count"


def test_a_batch_waits_for_enough_messages(world: World) -> None:
    topic = world.topic(queues=1)
    given = {"subscribe": topic, "startingOffsets": "earliest", "minOffsetsPerTrigger": "100"}
    world.fill(topic, numbered(1, "first"))
    stream = Stream(world, **given, maxTriggerDelay="1h")
    assert stream.batch() == each_once(numbered(1, "first")), "the first one does not wait"
    world.fill(topic, numbered(99))
    assert stream.batch() is None
    world.fill(topic, numbered(1, "last"))
    assert stream.batch() == each_once(numbered(99) + numbered(1, "last"))
    hasty = Stream(world, **given, maxTriggerDelay="1ms")
    assert hasty.batch() is not None
    world.fill(topic, numbered(1, "late"))
    wait_for(lambda: hasty.batch() == each_once(numbered(1, "late")), "a batch that has waited long enough")


def test_what_is_there_now_and_nothing_else(any_world: World) -> None:
    topic = any_world.topic(queues=2)
    sent = numbered(1_000)
    any_world.fill(topic, sent)
    stream = Stream(any_world, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="300")
    stream.reader.prepareForTriggerAvailableNow()
    any_world.fill(topic, numbered(1_000, "later"))
    any_world.create_topic(topic, 4)
    assert stream.everything() == each_once(sent)
    assert stream.batches == 4


def test_new_queues_and_topics_are_found(any_world: World) -> None:
    word = any_world.name("growing")
    first, second = f"{word}-x", f"{word}-y"
    any_world.create_topic(first, 1)
    stream = Stream(any_world, subscribePattern=f"{word}-.*")
    any_world.fill(first, numbered(10, "one"))
    assert stream.everything() == each_once(numbered(10, "one"))
    any_world.create_topic(first, 3)
    any_world.fill(first, numbered(3_000, "more queues"))
    any_world.create_topic(second, 2)
    any_world.fill(second, numbered(2_000, "another topic"))
    sent = each_once(numbered(3_000, "more queues") + numbered(2_000, "another topic"))
    assert read_until(stream, sent.total()) == sent
    assert len(stream.position[first]["broker-a"]) == 3
    assert len(stream.position[second]["broker-b"]) == 2


def test_a_stream_of_nothing_yet_begins_with_the_first_topic(world: World) -> None:
    word = world.name("empty")
    stream = Stream(world, subscribePattern=f"{word}.*")
    assert stream.position == {}
    assert stream.batch() is None
    world.create_topic(word, 1)
    world.fill(word, numbered(500))
    assert read_until(stream, 500) == each_once(numbered(500))


def test_a_checkpoint_of_an_older_set_of_queues_is_read(any_world: World) -> None:
    topic = any_world.topic(queues=4)
    any_world.fill(topic, numbered(4_000))
    whole = Stream(any_world, subscribe=topic, startingOffsets="earliest")
    before = {topic: {"broker-a": {"0": whole.position[topic]["broker-a"]["0"]}}}
    stream = Stream(any_world, before, subscribe=topic)
    assert stream.everything() == each_once(numbered(4_000))


def test_offsets_are_told_to_brokers_where_wanted(any_world: World) -> None:
    topic, group = any_world.topic(queues=1), any_world.name("group")
    given = {"subscribe": topic, "startingOffsets": "earliest", "groupId": group}
    any_world.fill(topic, numbered(1_000))
    cluster = cluster_of(options_of(any_world, given).connection, group)
    queues = any_world.queues(topic)
    assert Stream(any_world, **given).everything().total() == 1_000
    assert set(cluster.committed(queues).values()) == {None}
    assert Stream(any_world, **given, commitOffsets="true").everything().total() == 1_000
    ends = any_world.max_offsets(topic)
    wait_for(lambda: cluster.committed(queues) == ends, "offsets of the group")
    any_world.fill(topic, numbered(500, "after"))
    rest = Stream(any_world, subscribe=topic, groupId=group, startingOffsets="committed")
    assert rest.everything() == each_once(numbered(500, "after"))


def test_progress_shows_the_latest_offsets(world: World) -> None:
    topic = world.topic(queues=1)
    stream = Stream(world, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="1")
    assert stream.reader.reportLatestOffset() is None
    world.fill(topic, numbered(10))
    stream.batch()
    latest = stream.reader.reportLatestOffset()
    assert latest is not None
    assert sum(latest[topic][broker]["0"] for broker in ("broker-a", "broker-b")) == 10
