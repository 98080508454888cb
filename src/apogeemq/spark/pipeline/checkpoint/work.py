"""What a run of a pipeline does, as a fingerprint: the same as long as it reads, computes and writes the same. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec

from apogeemq.spark.pipeline.spec import PipelineSpec


def work_of(spec: PipelineSpec) -> str:
    told = msgspec.json.encode(list(_unplaced(spec)), order="deterministic")
    return hashlib.blake2b(told, digest_size=16).hexdigest()


def _unplaced(spec: PipelineSpec) -> Iterator[msgspec.Struct]:
    """All parts, wherever they stand in the file."""
    for source in spec.sources.values():
        decode = source.decode and msgspec.structs.replace(source.decode, line=0)
        yield msgspec.structs.replace(source, decode=decode, line=0)
    sinks = [*spec.sinks.values(), *([spec.dead_letters] if spec.dead_letters is not None else [])]
    for part in (*spec.steps.values(), *spec.quality.values(), *sinks):
        yield msgspec.structs.replace(part, line=0)
