"""The options of reads: what they mean, what excludes what, and that errors name the option."""

from __future__ import annotations

import pickle

import pytest

from apogeemq.errors import ConfigError
from apogeemq.model.queues import MessageQueue
from apogeemq.spark.source.columns import ALL_COLUMNS
from apogeemq.spark.source.message_filter import MessageFilter
from apogeemq.spark.source.read_options import DEFAULT_GROUP, Limits, Place, ReadOptions
from apogeemq.spark.source.selection import Selection

HOME = {"nameServer": "a:1"}


def read(**options: str) -> ReadOptions:
    return ReadOptions.read({**HOME, "subscribe": "orders", **options})


def selection(**options: str) -> Selection:
    return ReadOptions.read({**HOME, **options}).selection


def test_a_name_server_and_a_topic_are_enough() -> None:
    options = read()
    assert options.selection == Selection(topics=("orders",))
    assert options.columns == ALL_COLUMNS
    assert options.filter.is_everything
    assert options.fail_on_data_loss
    assert options.limits == Limits()
    assert (options.group, options.commits_offsets) == (DEFAULT_GROUP, False)
    assert (options.starting, options.ending) == (None, None)
    assert (options.min_partitions, options.max_records_per_partition) == (1, None)
    assert options.of_batch() is options.of_stream() is options


def test_they_travel() -> None:
    options = read(startingOffsets='{"orders": -2}', assign="", tags="a||b")
    assert pickle.loads(pickle.dumps(options)) == options


def test_names_have_no_case() -> None:
    assert ReadOptions.read({"NAMESERVER": "a:1", "SUBSCRIBE": "orders", "failondataloss": "FALSE"}).group


# -- what to read --------------------------------------------------------------------------------------------


def test_topics_by_name() -> None:
    found = selection(subscribe="orders, %RETRY%billing")
    assert found.chosen_topics(()) == ("orders", "%RETRY%billing")
    assert found.takes(MessageQueue("b", 7, "orders"))
    assert not found.takes(MessageQueue("b", 7, "order"))


def test_topics_that_only_brokers_name() -> None:
    """Such as those of messages that were popped and are tried again."""
    names = ("%RETRY%billing+orders", "%DLQ%billing+orders")
    assert selection(subscribe=",".join(names)).topics == names
    assert selection(assign='{"%RETRY%billing+orders": {"b": [0]}}').topics == names[:1]


def test_topics_by_pattern() -> None:
    found = selection(subscribePattern="orders.*|TBW102")
    assert found.chosen_topics(("TBW102", "orders-2", "orders", "my-orders")) == ("orders", "orders-2")
    assert found.takes(MessageQueue("b", 0, "orders-9"))
    assert not found.takes(MessageQueue("b", 0, "bills"))


def test_a_pattern_for_everything_is_not_for_what_the_system_makes() -> None:
    there = ("A", "%RETRY%g", "%DLQ%g", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_wheel_timer", "SCHEDULE_TOPIC_XXXX")
    assert selection(subscribePattern=".*").chosen_topics(there) == ("A",)
    assert selection(subscribePattern="%DLQ%.*").chosen_topics(there) == ("%DLQ%g",)


def test_queues_by_number() -> None:
    found = selection(assign='{"orders": {"broker-a": [0, 2]}}')
    assert found.topics == ("orders",)
    assert found.takes(MessageQueue("broker-a", 2, "orders"))
    assert not found.takes(MessageQueue("broker-a", 1, "orders"))
    assert not found.takes(MessageQueue("broker-b", 0, "orders"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "what to read is missing: give exactly one of the options subscribe, subscribePattern, assign"),
        ({"subscribe": "a", "subscribePattern": "b"}, "subscribe and subscribePattern exclude each other"),
        ({"subscribe": "a", "assign": "{}"}, "subscribe and assign exclude each other"),
        ({"subscribe": "a b"}, "option subscribe is 'a b': expected the name of a topic"),
        ({"subscribe": "a+b"}, "contains illegal characters"),
        ({"subscribe": "%RETRY%a\x01b"}, "contains illegal characters"),
        ({"subscribe": "x" * 128}, "longer than topic max length"),
        ({"subscribePattern": "("}, "option subscribePattern .* a regular expression"),
        ({"assign": "[]"}, "option assign"),
        ({"assign": "{}"}, "option assign .* one at least of each"),
        ({"assign": '{"a": {"b": [0]}, "c": {}}'}, "option assign .* one at least of each"),
        ({"assign": '{"a": {"b": [0], "c": []}}'}, "option assign .* one at least of each"),
        ({"assign": '{"a": [0]}'}, "option assign"),
        ({"assign": '{"a": {"b": [-1]}}'}, "option assign"),
        ({"assign": '{"a": {"b": [true]}}'}, "option assign"),
        ({"assign": '{"a": {"b": 0}}'}, "option assign"),
        ({"assign": '{"a/../b": {"b": [0]}}'}, "option assign .* the name of a topic"),
    ],
)
def test_a_selection_that_cannot_be(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        selection(**options)


# -- from where to where -------------------------------------------------------------------------------------


def test_words() -> None:
    assert read(startingOffsets="Earliest").starting == Place(word="earliest")
    assert read(endingOffsets="latest").ending == Place(word="latest")
    assert read(startingOffsets="committed", groupId="g").starting == Place(word="committed")


def test_offsets_of_queues() -> None:
    place = read(startingOffsets='{"orders": {"broker-a": {"0": 17, "1": -2}, "broker-b": -1}}').starting
    assert place is not None
    assert place.offsets is not None
    assert place.offsets.of(MessageQueue("broker-a", 0, "orders")) == 17
    assert place.offsets.of(MessageQueue("broker-b", 5, "orders")) == -1


def test_times() -> None:
    assert read(startingTimestamp="17").starting == Place(time_ms=17)
    assert read(endingTimestamp="1970-01-01T00:00:01Z").ending == Place(time_ms=1000)
    place = read(startingOffsetsByTimestamp='{"orders": 5}').starting
    assert place is not None
    assert place.times_ms is not None
    assert place.times_ms.of(MessageQueue("b", 0, "orders")) == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "first"}, "option startingOffsets is 'first': expected earliest, latest"),
        ({"endingOffsets": "committed", "groupId": "g"}, "option endingOffsets"),
        ({"startingOffsets": "committed"}, "startingOffsets=committed needs groupId"),
        ({"startingOffsets": "{}"}, "option startingOffsets .* no topic"),
        ({"startingOffsets": '{"orders": 5}'}, "only -1 and -2 can be for several queues"),
        ({"startingOffsets": '{"orders": {"b": {"0": -3}}}'}, "-3 is no offset"),
        ({"startingOffsets": '{"orders": {"b": {"x": 3}}}'}, "the number of a queue"),
        ({"startingOffsets": '{"other": -2}'}, "offsets are given for other, which is not read"),
        ({"endingOffsetsByTimestamp": '{"other": 2}'}, "offsets are given for other, which is not read"),
        ({"startingOffsetsByTimestamp": '{"orders": -2}'}, "-2 at orders is no time"),
        ({"startingOffsetsByTimestamp": "17"}, "option startingOffsetsByTimestamp"),
        ({"startingTimestamp": "now"}, "option startingTimestamp"),
        ({"startingOffsets": "earliest", "startingTimestamp": "1"}, "startingOffsets and startingTimestamp exclude"),
        (
            {"startingTimestamp": "1", "startingOffsetsByTimestamp": '{"orders": 1}'},
            "startingTimestamp and startingOffsetsByTimestamp exclude",
        ),
        ({"endingOffsets": "latest", "endingTimestamp": "1"}, "endingOffsets and endingTimestamp exclude"),
    ],
)
def test_a_place_that_cannot_be(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(**options)


# -- batches and streams -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "option", ["maxOffsetsPerTrigger=1", "minOffsetsPerTrigger=1", "maxBytesPerTrigger=1", "commitOffsets=true"]
)
def test_options_of_streams_are_refused_in_a_batch(option: str) -> None:
    name, value = option.split("=")
    options = read(**{name: value, "groupId": "g"})
    assert options.of_stream() is options
    with pytest.raises(ConfigError, match=f"option {name} is for streams"):
        options.of_batch()


@pytest.mark.parametrize(
    "option", ["endingOffsets=latest", "endingTimestamp=1", 'endingOffsetsByTimestamp={"orders": 1}']
)
def test_options_of_batches_are_refused_in_a_stream(option: str) -> None:
    name, value = option.split("=")
    options = read(**{name: value})
    assert options.of_batch() is options
    with pytest.raises(ConfigError, match=f"option {name} is for batches"):
        options.of_stream()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets cannot be latest"),
        ({"startingOffsets": '{"orders": {"b": {"0": -1}}}'}, "startingOffsets cannot be latest"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"endingOffsets": '{"orders": -2}'}, "endingOffsets cannot be earliest"),
        ({"startingTimestamp": "5", "endingTimestamp": "4"}, "startingTimestamp .* is after endingTimestamp"),
    ],
)
def test_a_batch_of_nothing_is_a_mistake(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(**options).of_batch()


# -- the rest ------------------------------------------------------------------------------------------------


def test_limits() -> None:
    options = read(
        maxOffsetsPerTrigger="100", minOffsetsPerTrigger="10", maxTriggerDelay="2m", maxBytesPerTrigger="4096"
    )
    assert options.limits == Limits(max_messages=100, max_bytes=4096, min_messages=10, max_delay_ms=120_000)


def test_filters() -> None:
    assert read(tags="a || b").filter == MessageFilter(tags="a || b")
    assert read(sql="price > 5").filter == MessageFilter(sql="price > 5")


def test_columns() -> None:
    assert read(columns="body, topic").columns == ("body", "topic")
    assert "body" not in read(includeBody="false").columns
    assert len(read(includeBody="false", includeProperties="false").columns) == len(ALL_COLUMNS) - 2
    assert read(includeBody="true").columns == ALL_COLUMNS
    assert (read(includeProperties="all").columns, read(includeProperties="All").all_properties) == (ALL_COLUMNS, True)
    assert not read().all_properties
    assert not read(includeProperties="true").all_properties


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"maxOffsetsPerTrigger": "0"}, "option maxOffsetsPerTrigger"),
        ({"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"}, r"minOffsetsPerTrigger \(6\) is more than"),
        ({"maxTriggerDelay": "5s"}, "option maxTriggerDelay needs minOffsetsPerTrigger"),
        ({"minPartitions": "0"}, "option minPartitions"),
        ({"maxRecordsPerPartition": "-1"}, "option maxRecordsPerPartition"),
        ({"failOnDataLoss": "no"}, "option failOnDataLoss is 'no': expected true or false"),
        ({"commitOffsets": "true"}, "option commitOffsets needs groupId"),
        ({"groupId": "a b"}, "option groupId"),
        ({"tags": "a", "sql": "b > 1"}, "options tags and sql exclude each other"),
        ({"tags": "||"}, "option tags"),
        ({"columns": "body,colour"}, "option columns is 'colour': expected some of topic, broker"),
        ({"columns": "body", "includeBody": "false"}, "option includeBody .* because columns names body"),
        ({"columns": "topic", "includeBody": "true"}, "option includeBody .* because columns does not name body"),
        ({"maxOffsetPerTrigger": "5"}, "unknown option maxOffsetPerTrigger; did you mean maxOffsetsPerTrigger?"),
        ({"kafka.bootstrap.servers": "x"}, "unknown option kafka.bootstrap.servers"),
        ({"path": "/x"}, "unknown option path"),
    ],
)
def test_what_cannot_be(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(**options)
