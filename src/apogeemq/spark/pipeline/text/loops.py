"""Pipelines that would read what they write: each row would come back as a new one, without end. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from apogeemq.errors import ConfigError
from apogeemq.spark.options import OptionReader
from apogeemq.spark.pipeline.spec import TOPICS, PipelineSpec, Sink, SinkKind, Source
from apogeemq.spark.pipeline.text.addresses import servers_named


def loops(spec: PipelineSpec) -> Iterator[tuple[Sink, Source, str]]:
    """The sinks and streams, and the topic that they share."""
    streams = [source for source in spec.sources.values() if source.format == TOPICS and source.is_stream]
    sinks = [*spec.sinks.values(), *([spec.dead_letters] if spec.dead_letters is not None else [])]
    for sink in sinks:
        topics = written_topics(sink) if sink.kind is SinkKind.TOPIC else ()
        for source in streams:
            if topics and _share_servers(sink.options, source.options):
                yield from ((sink, source, topic) for topic in _read(source, topics))


def written_topics(sink: Sink) -> tuple[str, ...]:
    """Where all rows go, or those that they may name."""
    if sink.topic:
        return (sink.topic,)
    try:
        return OptionReader(sink.options).names("topics", ())
    except ConfigError:  # said elsewhere
        return ()


def _read(source: Source, topics: tuple[str, ...]) -> tuple[str, ...]:
    from apogeemq.spark.source.selection import Selection

    try:
        selection = Selection.read(OptionReader(source.options))
    except ConfigError:  # said elsewhere
        return ()
    chosen = selection.chosen_topics(topics)
    return tuple(topic for topic in topics if topic in chosen)


def _share_servers(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """One address in common is enough; with different namespaces, the same name means two topics."""
    (space, servers), (other_space, other_servers) = _cluster(one), _cluster(other)
    return space == other_space and bool(servers & other_servers)


def _cluster(options: Mapping[str, str]) -> tuple[str, frozenset[str]]:
    reader = OptionReader(options)
    return reader.text("namespace", ""), servers_named(reader.text("nameServer", ""))
