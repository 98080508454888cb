"""The figures of a broker, for Prometheus.

Topics and groups are labels; there may be any number of them, so only the first thousand have lines of their own, and
the others share one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal

from apogeemq.broker.state import BrokerState
from apogeemq.broker.stats import Counts, CountTable, Histogram
from apogeemq.broker.tables.offsets import SEPARATOR
from apogeemq.protocol.codes import RequestCode
from apogeemq.runtime.metrics import Family, HistogramFamily, Sample
from apogeemq.store.upkeep.flush import FLUSH_TIME_BOUNDS

if TYPE_CHECKING:
    from apogeemq.broker.server import Broker

MAX_LABEL_SETS: Final = 1_000
OTHERS: Final = "(others)"

_PREFIX: Final = "apogee_broker_"


def families(broker: Broker) -> list[Family | HistogramFamily]:
    return [
        *_traffic(broker.state),
        *_store(broker),
        *_clients(broker),
        *_requests(broker),
        *_registration(broker),
        _lag(broker.state),
    ]


# -- messages ------------------------------------------------------------------------------------------------


def _traffic(state: BrokerState) -> Iterator[Family | HistogramFamily]:
    stats = state.stats
    put = [({"topic": key}, counts) for key, counts in _bounded(stats.puts)]
    got = [(_topic_and_group(key), counts) for key, counts in _bounded(stats.gets)]
    sent_back = [(_topic_and_group(key), counts) for key, counts in _bounded(stats.send_backs)]
    yield _labelled("messages_in", "Messages stored, by topic.", put, "messages")
    yield _labelled("bytes_in", "Bytes of messages stored, by topic.", put, "size")
    yield _labelled("messages_out", "Messages pulled, by topic and group.", got, "messages")
    yield _labelled("bytes_out", "Bytes of messages pulled, by topic and group.", got, "size")
    yield _labelled("messages_sent_back", "Messages consumers sent back.", sent_back, "messages")
    yield _counter("pulls_without_messages", "Pulls answered without a message.", stats.get_miss_count)
    yield _histogram("put_seconds", "Time to store the messages of a send.", stats.put_seconds)
    yield _histogram("get_seconds", "Time to find the messages of a pull.", stats.get_seconds)


def _bounded(table: CountTable) -> Iterator[tuple[str, Counts]]:
    """The first keys in the order they came, so that a key never changes its place; the rest together."""
    rest = Counts()
    rows = iter(table.rows.items())
    yield from islice(rows, MAX_LABEL_SETS)
    for _, counts in rows:
        rest.messages += counts.messages
        rest.size += counts.size
    if len(table.rows) > MAX_LABEL_SETS:
        yield OTHERS, rest


def _topic_and_group(key: str) -> dict[str, str]:
    topic, _, group = key.partition(SEPARATOR)
    return {"topic": topic, "group": group}


def _lag(state: BrokerState) -> Family:
    """Of every group in every topic it has read: the messages it has not consumed yet."""
    samples = []
    for topic, group, offsets in islice(state.offsets.pairs(), MAX_LABEL_SETS):
        config = state.topics.get(topic)
        if config is not None:
            lag = sum(
                max(queue.max_offset - max(offsets.get(queue_id, 0), queue.min_offset), 0)
                for queue_id in range(config.read_queue_nums)
                if (queue := state.store.queues.get((topic, queue_id))) is not None
            )
            samples.append(Sample(lag, {"group": group, "topic": topic}))
    return Family(f"{_PREFIX}consumer_lag", "gauge", "Messages a group has yet to consume.", samples)


# -- store ---------------------------------------------------------------------------------------------------


def _store(broker: Broker) -> Iterator[Family | HistogramFamily]:
    state, opened = broker.state, broker.state.opened
    store, flushes = opened.store, opened.flush_figures
    yield _gauge("writable", "Whether messages can be stored.", 1 if opened.store.why_not_writable() is None else 0)
    yield _gauge("commit_log_min_offset", "First byte of the commit log.", store.log.min_offset)
    yield _gauge("commit_log_max_offset", "Byte after the last of the commit log.", store.log.max_offset)
    yield _gauge("commit_log_flushed_offset", "Bytes below this are on the disk.", store.log.flushed_offset)
    yield _gauge("commit_log_bytes", "Size of the commit log.", store.log.max_offset - store.log.min_offset)
    yield _gauge("disk_used_ratio", "Share of the disk in use, by anybody.", opened.disk.used_percent / 100)
    yield _gauge("queues", "Consume queues.", len(store.queues))
    yield _gauge("mapped_queue_files", "Files of consume queues that are mapped.", store.mapped_queue_file_count)
    yield HistogramFamily(
        f"{_PREFIX}flush_seconds",
        "Time of a flush of the commit log (fsync).",
        FLUSH_TIME_BOUNDS,
        tuple(flushes.counts_by_time),
        flushes.seconds_total,
    )
    yield _counter("flush_failures", "Flushes that failed; after one, messages are refused.", flushes.failure_count)
    yield _counter("put_failures", "Messages that could not be stored.", broker.putter.failure_count)
    yield _counter("index_failures", "Messages that are not in the key index.", store.index_failure_count)
    yield _counter("table_failures", "Writes of a configuration table that failed.", broker.tables.failure_count)
    yield _counter("deleted_files", "Files deleted because their time was over.", opened.deleted_file_count)
    yield _gauge("waiting_sends", "Sends that wait until their message is on the disk.", len(state.promises))
    yield _counter("delayed_messages_delivered", "Delayed messages delivered.", broker.delivery.delivered_count)


# -- clients and requests ------------------------------------------------------------------------------------


def _clients(broker: Broker) -> Iterator[Family]:
    state = broker.state
    servers = (broker.server, broker.fast_server)
    yield _gauge("topics", "Topics.", len(state.topics.topics))
    yield _gauge("groups", "Consumer groups.", len(state.groups.groups))
    yield _gauge("clients", "Connected producers and consumers.", state.clients.client_count)
    yield _gauge("producer_groups", "Producer groups with a client.", len(state.clients.producers))
    yield _gauge("consumer_groups", "Consumer groups with a client.", len(state.clients.consumers))
    yield _gauge("queue_locks", "Queues locked for ordered consumption.", state.locks.lock_count)
    yield _gauge("held_pulls", "Pulls that wait for messages.", broker.held.count)
    yield _gauge("held_requests", "Requests that wait for a later answer.", sum(s.held_count for s in servers))
    yield _gauge("connections", "Connections open.", sum(server.connection_count for server in servers))
    yield _counter("connections_accepted", "Connections accepted.", sum(s.counters.accepted for s in servers))
    reasons = {
        "idle": sum(server.counters.closed_idle for server in servers),
        "stalled": sum(server.counters.closed_stalled for server in servers),
        "malformed": sum(server.counters.closed_malformed for server in servers),
        "tls": sum(server.counters.tls_failed for server in servers),
        "refused": sum(server.counters.refused for server in servers),
    }
    samples = [Sample(count, {"reason": reason}) for reason, count in reasons.items()]
    yield Family(f"{_PREFIX}connections_closed", "counter", "Connections closed by us, by reason.", samples)


def _requests(broker: Broker) -> Iterator[Family]:
    dispatchers = (broker.server.dispatcher, broker.fast_server.dispatcher)
    codes: dict[int, int] = {}
    for dispatcher in dispatchers:
        for code, count in dispatcher.request_counts.items():
            codes[code] = codes.get(code, 0) + count
    samples = [Sample(count, {"code": str(code), "name": RequestCode(code).name}) for code, count in codes.items()]
    yield Family(f"{_PREFIX}requests", "counter", "Requests by code.", samples)
    failures = sum(dispatcher.failure_count for dispatcher in dispatchers)
    yield _counter("request_failures", "Requests answered with an unexpected error.", failures)


def _registration(broker: Broker) -> Iterator[Family]:
    states = broker.registration.states
    labels = [{"name_server": state.address} for state in states]
    registered = [Sample(1 if state.is_registered else 0, label) for state, label in zip(states, labels, strict=True)]
    failures = [Sample(state.failure_count, label) for state, label in zip(states, labels, strict=True)]
    yield Family(f"{_PREFIX}registered", "gauge", "Whether a name server has taken this broker.", registered)
    yield Family(f"{_PREFIX}registration_failures", "counter", "Registrations that failed.", failures)


# -- shapes --------------------------------------------------------------------------------------------------


def _labelled(
    name: str,
    help_text: str,
    rows: list[tuple[dict[str, str], Counts]],
    figure: Literal["messages", "size"],
) -> Family:
    samples = [Sample(getattr(counts, figure), labels) for labels, counts in rows]
    return Family(f"{_PREFIX}{name}", "counter", help_text, samples)


def _histogram(name: str, help_text: str, histogram: Histogram) -> HistogramFamily:
    return HistogramFamily(
        f"{_PREFIX}{name}", help_text, histogram.bounds, tuple(histogram.counts), histogram.total_seconds
    )


def _counter(name: str, help_text: str, value: float) -> Family:
    return Family(f"{_PREFIX}{name}", "counter", help_text, [Sample(value)])


def _gauge(name: str, help_text: str, value: float) -> Family:
    return Family(f"{_PREFIX}{name}", "gauge", help_text, [Sample(value)])
