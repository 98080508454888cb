"""The options of a read, batch or stream. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import msgspec

from apogeemq.errors import ConfigError
from apogeemq.model.groups import group_problem
from apogeemq.spark.connection import Connection
from apogeemq.spark.options import MAX_TIME_MS, OptionReader, wrong
from apogeemq.spark.source.columns import chosen_columns, wants_all_properties
from apogeemq.spark.source.message_filter import MessageFilter
from apogeemq.spark.source.offsets import EARLIEST, LATEST, QueueNumbers
from apogeemq.spark.source.selection import Selection

_Check: TypeAlias = Callable[[tuple[str, ...], int], None]

DEFAULT_GROUP: Final = "apogeemq-spark"
MAX_TRIGGER_DELAY_MS: Final = 15 * 60_000

_ONLY_STREAM: Final = (
    *("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger"),
    "commitOffsets",
)
_ONLY_BATCH: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")

_OFFSETS_FORM: Final = (
    "earliest, latest, or offsets by topic, broker and queue "
    'such as {"orders": {"broker-a": {"0": 17, "1": -2}}}, where -2 is earliest and -1 latest'
)
_TIMES_FORM: Final = (
    "times in milliseconds by topic, or by topic, broker and queue, "
    'such as {"orders": 1767225600000, "bills": {"broker-a": {"0": 1767225600000}}}'
)


class Place(msgspec.Struct, frozen=True):
    """Where reading begins or ends in each queue: one of these."""

    word: str = ""  # earliest, latest or committed
    offsets: QueueNumbers | None = None
    time_ms: int | None = None
    times_ms: QueueNumbers | None = None


EVERYTHING: Final = Place(word="earliest")
NEW_ONLY: Final = Place(word="latest")


class Limits(msgspec.Struct, frozen=True):
    """How much of what there is a micro-batch takes. None: all of it."""

    max_messages: int | None = None
    max_bytes: int | None = None
    # Wait for so many, but no longer than so.
    min_messages: int | None = None
    max_delay_ms: int = MAX_TRIGGER_DELAY_MS


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    connection: Connection
    group: str
    selection: Selection
    starting: Place | None
    ending: Place | None
    limits: Limits
    columns: tuple[str, ...]
    all_properties: bool
    filter: MessageFilter
    fail_on_data_loss: bool
    commits_offsets: bool
    pushes_filters: bool
    min_partitions: int
    max_records_per_partition: int | None
    # Options that mean nothing to the other kind of read.
    only_batch: tuple[str, ...]
    only_stream: tuple[str, ...]

    @classmethod
    def read(cls, given: Mapping[str, str]) -> ReadOptions:
        """ConfigError for what is wrong, unknown or contradictory."""
        options = OptionReader(given)
        found = cls.taken_from(options)
        options.finish()
        found._check_topics()
        return found

    @classmethod
    def taken_from(cls, options: OptionReader) -> ReadOptions:
        return cls(
            connection=Connection.read(options),
            group=_group(options),
            selection=Selection.read(options),
            starting=_place(options, "starting"),
            ending=_place(options, "ending"),
            limits=_limits(options),
            columns=chosen_columns(options),
            all_properties=wants_all_properties(options),
            filter=MessageFilter.read(options),
            fail_on_data_loss=options.flag("failOnDataLoss", True),
            commits_offsets=_commits(options),
            pushes_filters=options.flag("pushFilters", True),
            min_partitions=options.whole("minPartitions", 1, least=1, most=100_000),
            max_records_per_partition=options.whole("maxRecordsPerPartition", None, least=1),
            only_batch=tuple(name for name in _ONLY_BATCH if options.has(name)),
            only_stream=tuple(name for name in _ONLY_STREAM if options.has(name)),
        )

    def of_batch(self) -> ReadOptions:
        """ConfigError for options of streams, and for a start or an end that no batch can have."""
        if self.only_stream:
            raise ConfigError(f"option {self.only_stream[0]} is for streams: spark.readStream")
        if _says(self.starting, "latest", LATEST):
            raise ConfigError("startingOffsets cannot be latest (-1) in a batch: there would be nothing to read")
        if _says(self.ending, "earliest", EARLIEST):
            raise ConfigError("endingOffsets cannot be earliest (-2): there would be nothing to read")
        start_ms, end_ms = (place.time_ms if place is not None else None for place in (self.starting, self.ending))
        if start_ms is not None and end_ms is not None and start_ms > end_ms:
            raise ConfigError(f"startingTimestamp ({start_ms}) is after endingTimestamp ({end_ms})")
        return self

    def of_stream(self) -> ReadOptions:
        """ConfigError for options of batches."""
        if self.only_batch:
            raise ConfigError(f"option {self.only_batch[0]} is for batches (spark.read): a stream has no end")
        return self

    def _check_topics(self) -> None:
        """Offsets for topics that are not read are a slip of the pen."""
        if self.selection.pattern:
            return
        for place in (self.starting, self.ending):
            for numbers in (place.offsets, place.times_ms) if place is not None else ():
                strange = numbers.topics - set(self.selection.topics) if numbers is not None else None
                if strange:
                    raise ConfigError(f"offsets are given for {', '.join(sorted(strange))}, which is not read")


def _group(options: OptionReader) -> str:
    group = options.text("groupId", DEFAULT_GROUP)
    if problem := group_problem(group):
        raise wrong("groupId", group, f"the name of a group ({problem})")
    return group


def _commits(options: OptionReader) -> bool:
    commits = options.flag("commitOffsets", False)
    if commits and not options.has("groupId"):
        raise ConfigError("option commitOffsets needs groupId: the group whose offsets brokers keep")
    return commits


def _limits(options: OptionReader) -> Limits:
    limits = Limits(
        max_messages=options.whole("maxOffsetsPerTrigger", None, least=1),
        max_bytes=options.whole("maxBytesPerTrigger", None, least=1),
        min_messages=options.whole("minOffsetsPerTrigger", None, least=1),
        max_delay_ms=options.duration_ms("maxTriggerDelay", MAX_TRIGGER_DELAY_MS),
    )
    if options.has("maxTriggerDelay") and limits.min_messages is None:
        raise ConfigError("option maxTriggerDelay needs minOffsetsPerTrigger")
    if limits.min_messages and limits.max_messages and limits.min_messages > limits.max_messages:
        raise ConfigError(
            f"minOffsetsPerTrigger ({limits.min_messages}) is more than maxOffsetsPerTrigger ({limits.max_messages})"
        )
    return limits


def _place(options: OptionReader, which: str) -> Place | None:
    by_offsets, by_time, by_times = f"{which}Offsets", f"{which}Timestamp", f"{which}OffsetsByTimestamp"
    given = [name for name in (by_offsets, by_time, by_times) if options.has(name)]
    if len(given) > 1:
        raise ConfigError(f"options {' and '.join(given)} exclude each other")
    if (time_ms := options.time_ms(by_time, None)) is not None:
        return Place(time_ms=time_ms)
    if (times := options.json(by_times, _TIMES_FORM)) is not None:
        return Place(times_ms=_numbers(options, by_times, times, _check_time, _TIMES_FORM))
    text = options.text(by_offsets, None)
    if text is None:
        return None
    if not text.startswith("{"):
        words = ("earliest", "latest", *(("committed",) if which == "starting" else ()))
        if text.lower() not in words:
            raise wrong(by_offsets, text, _OFFSETS_FORM)
        if text.lower() == "committed" and not options.has("groupId"):
            raise ConfigError(f"option {by_offsets}=committed needs groupId")
        return Place(word=text.lower())
    offsets = options.json(by_offsets, _OFFSETS_FORM) or {}
    return Place(offsets=_numbers(options, by_offsets, offsets, _check_offset, _OFFSETS_FORM))


def _numbers(options: OptionReader, name: str, found: dict[str, object], check: _Check, expected: str) -> QueueNumbers:
    try:
        if not found:
            raise ValueError("there is no topic in it")
        return QueueNumbers.read(found, check)
    except ValueError as error:
        raise wrong(name, options.text(name, ""), f"{expected} ({error})") from None


def _check_offset(place: tuple[str, ...], value: int) -> None:
    if value >= 0 and len(place) < 3:
        raise ValueError(f"{value} at {' → '.join(place)}: only -1 and -2 can be for several queues")
    if not EARLIEST <= value < 2**63:
        raise ValueError(f"{value} is no offset")


def _check_time(place: tuple[str, ...], value: int) -> None:
    if not 0 <= value <= MAX_TIME_MS:
        raise ValueError(f"{value} at {' → '.join(place)} is no time")


def _says(place: Place | None, word: str, number: int) -> bool:
    return place is not None and (
        place.word == word or (place.offsets is not None and number in place.offsets.by_place.values())
    )
