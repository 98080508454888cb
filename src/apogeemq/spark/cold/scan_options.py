"""Options of the data source `rocketmq-store`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from apogeemq.errors import ConfigError
from apogeemq.spark.cold.wanted import Wanted, pattern_problem
from apogeemq.spark.options import OptionReader, wrong
from apogeemq.spark.source.columns import chosen_columns, wants_all_properties

FAIL: Final = "fail"
SKIP: Final = "skip"
MIB: Final = 1024 * 1024
DEFAULT_PARTITION_BYTES: Final = 128 * MIB  # as Spark's own file sources


class ScanOptions(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    # Where the log is when it is not in the folder `commitlog` of the path.
    log_paths: tuple[str, ...]
    broker: str | None
    wanted: Wanted
    columns: tuple[str, ...]
    all_properties: bool
    max_partition_bytes: int
    skips_damage: bool
    checks_crc: bool

    @classmethod
    def read(cls, given: Mapping[str, str]) -> ScanOptions:
        """ConfigError for what is wrong, unknown or contradictory."""
        options = OptionReader(given)
        found = cls(
            path=options.required("path", "the store folder of a broker (storePathRootDir)"),
            log_paths=options.names("commitLogPath", ()),
            broker=options.text("brokerName", None),
            wanted=_wanted(options),
            columns=chosen_columns(options),
            all_properties=wants_all_properties(options),
            max_partition_bytes=options.whole("maxBytesPerPartition", DEFAULT_PARTITION_BYTES, least=1),
            skips_damage=options.choice("onCorrupt", (FAIL, SKIP), FAIL) == SKIP,
            checks_crc=options.flag("checkCrc", True),
        )
        options.finish()
        return found


def _wanted(options: OptionReader) -> Wanted:
    topics, pattern = options.names("topics", None), options.text("topicsPattern", "")
    if topics is not None and pattern:
        raise ConfigError("options topics and topicsPattern exclude each other")
    if problem := pattern_problem(pattern):
        raise wrong("topicsPattern", pattern, f"a regular expression ({problem})")
    start, end = options.time_ms("startingTimestamp", None), options.time_ms("endingTimestamp", None)
    if start is not None and end is not None and start > end:
        raise ConfigError(f"option startingTimestamp ({start}) is after endingTimestamp ({end})")
    return Wanted(
        topics=None if topics is None else frozenset(topics),
        pattern=pattern,
        is_internal_wanted=options.flag("includeInternal", False),
        start_ms=start,
        end_ms=end,
    )
