"""What a run of a pipeline does, as a fingerprint: the same as long as it reads, computes and writes the same. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

import msgspec

from apogeemq.spark.pipeline.spec import PipelineSpec

StructT = TypeVar("StructT", bound=msgspec.Struct)

_SECRETS: Final = re.compile(r"(?i)password|secret|token|access_?key")  # they change from time to time


def work_of(spec: PipelineSpec) -> str:
    told = msgspec.json.encode(list(_unplaced(spec)), order="deterministic")
    return hashlib.blake2b(told, digest_size=16).hexdigest()


def _unplaced(spec: PipelineSpec) -> Iterator[msgspec.Struct]:
    """All parts, wherever they stand in the file; without what only opens a door."""
    for _, source in sorted(spec.sources.items()):
        decode = source.decode and msgspec.structs.replace(source.decode, line=0)
        yield msgspec.structs.replace(source, decode=decode, options=_without_secrets(source.options), line=0)
    for part in (*_sorted(spec.steps), *_sorted(spec.quality)):
        yield msgspec.structs.replace(part, line=0)
    for sink in (*_sorted(spec.sinks), *([spec.dead_letters] if spec.dead_letters is not None else [])):
        yield msgspec.structs.replace(sink, options=_without_secrets(sink.options), line=0)


def _sorted(parts: Mapping[str, StructT]) -> list[StructT]:
    return [parts[name] for name in sorted(parts)]


def _without_secrets(options: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in options.items() if not _SECRETS.search(name)}
