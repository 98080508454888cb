"""Which queues there are, and the offsets at which reading them begins or ends: asked of the cluster."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import NamedTuple

from apogeemq.errors import ConfigError, NoRoute, RouteCause
from apogeemq.model.queues import MessageQueue
from apogeemq.spark.cluster import Cluster
from apogeemq.spark.source.data_loss import LossRule, within
from apogeemq.spark.source.offsets import EARLIEST, LATEST, Offsets, QueueNumbers, named
from apogeemq.spark.source.ranges import range_of
from apogeemq.spark.source.read_options import Place
from apogeemq.spark.source.selection import Selection

log = logging.getLogger(__name__)

# A name server that does not answer says nothing about who is there.
_NOBODY_ASKED = RouteCause.NO_NAME_SERVER


class PresentQueues(NamedTuple):
    """By topic; in `failed` are topics that nobody serves, or that may not be read."""

    found: dict[str, frozenset[MessageQueue]]
    failed: dict[str, NoRoute]


def present_queues(cluster: Cluster, selection: Selection) -> PresentQueues:
    """Those to read."""
    topics = selection.chosen_topics(cluster.topics() if selection.pattern else ())
    answers = cluster.try_queues(topics)
    failed: dict[str, NoRoute] = {}
    for topic, error in answers.failed.items():
        if not isinstance(error, NoRoute) or error.cause is _NOBODY_ASKED:
            raise error
        failed[topic] = error
    taken = {topic: frozenset(filter(selection.takes, queues)) for topic, queues in answers.found.items()}
    return PresentQueues(taken, failed)


def all_queues(cluster: Cluster, selection: Selection) -> frozenset[MessageQueue]:
    """All that are to be read. NoRoute when a topic does not exist, ConfigError when an assigned queue does not."""
    answers = present_queues(cluster, selection)
    for topic, error in answers.failed.items():
        if not selection.pattern or error.cause is not RouteCause.NOT_READABLE:
            raise error
        log.warning("the topic %s is left out: %s", topic, error)
    found = frozenset[MessageQueue]().union(*answers.found.values())
    if missing := (selection.assigned or frozenset()) - found:
        raise ConfigError(f"option assign names what there is not: {named(missing)}")
    return found


def offsets_of(cluster: Cluster, place: Place, queues: Collection[MessageQueue]) -> Offsets:
    """Where a place is in each queue."""
    if place.offsets is not None:
        return _given_offsets(cluster, place.offsets, queues)
    if place.times_ms is not None:
        return _at_times(cluster, _of_every_queue(place.times_ms, queues))
    if place.time_ms is not None:
        return _at_times(cluster, dict.fromkeys(queues, place.time_ms))
    if place.word == "latest":
        return cluster.max_offsets(queues)
    least = cluster.min_offsets(queues)
    if place.word != "committed":
        return least
    committed = cluster.committed(queues)
    return {queue: least[queue] if offset is None else offset for queue, offset in committed.items()}


def checked(cluster: Cluster, place: Place, offsets: Offsets, rule: LossRule) -> Offsets:
    """The same where offsets come from a person or a group, which may be wrong about what there is."""
    if place.offsets is None and place.word != "committed":
        return offsets
    least, ends = cluster.min_offsets(offsets), cluster.max_offsets(offsets)
    found: Offsets = {}
    for queue, offset in offsets.items():
        left, loss = within(range_of(queue, offset, ends[queue]), least[queue], ends[queue])
        rule.report(loss)
        found[queue] = left.start
    return found


def _given_offsets(cluster: Cluster, given: QueueNumbers, queues: Collection[MessageQueue]) -> Offsets:
    numbers = _of_every_queue(given, queues)
    least = cluster.min_offsets(queue for queue, number in numbers.items() if number == EARLIEST)
    ends = cluster.max_offsets(queue for queue, number in numbers.items() if number == LATEST)
    return {**numbers, **least, **ends}


def _of_every_queue(given: QueueNumbers, queues: Collection[MessageQueue]) -> Offsets:
    """ConfigError unless each queue has one, and each one a queue: whoever writes them down knows the queues."""
    numbers = {queue: given.of(queue) for queue in queues}
    if missing := [queue for queue, number in numbers.items() if number is None]:
        raise ConfigError(f"no offset or time is given for {named(missing)}")
    if unused := given.unused(queues):
        raise ConfigError(f"offsets or times are given for queues that there are not: {', '.join(unused[:5])}")
    return {queue: number for queue, number in numbers.items() if number is not None}


def _at_times(cluster: Cluster, times_ms: Mapping[MessageQueue, int]) -> Offsets:
    found: Offsets = {}
    for time_ms in sorted(set(times_ms.values())):
        found |= cluster.offsets_at([queue for queue, one in times_ms.items() if one == time_ms], time_ms)
    # A broker may look in an index that is older than its messages.
    least = cluster.min_offsets(found)
    return {queue: max(offset, least[queue]) for queue, offset in found.items()}
