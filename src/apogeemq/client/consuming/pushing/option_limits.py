"""Which options a push consumer can work with. Pure."""

from __future__ import annotations

from typing import Final

from apogeemq.client.options import ConsumerOptions
from apogeemq.errors import ConfigError

_MAX_PULL_BATCH: Final = 1024
_AT_LEAST_ONE: Final = ("max_cached_per_queue", "max_cached_bytes_per_queue", "max_span_per_queue")
_NOT_NEGATIVE: Final = ("max_cached_per_topic", "max_cached_bytes_per_topic", "stop_grace_seconds")
_POSITIVE: Final = ("suspend_seconds", "consume_timeout_seconds", "offset_persist_seconds", "rebalance_seconds")


def check_options(options: ConsumerOptions) -> None:
    """Raises ConfigError."""
    if not 1 <= options.pull_batch <= _MAX_PULL_BATCH:
        raise ConfigError(f"pull_batch={options.pull_batch}: expected 1 to {_MAX_PULL_BATCH}")
    if options.max_retries < -1:
        raise ConfigError(f"max_retries={options.max_retries}: expected -1 or more")
    for name in _AT_LEAST_ONE:
        if getattr(options, name) < 1:
            raise ConfigError(f"{name}={getattr(options, name)}: expected at least 1")
    for name in _NOT_NEGATIVE:
        if getattr(options, name) < 0:
            raise ConfigError(f"{name}={getattr(options, name):g}: expected 0 or more")
    for name in _POSITIVE:
        if not getattr(options, name) > 0:
            raise ConfigError(f"{name}={getattr(options, name):g}: expected more than 0")
    if options.pull_timeout_seconds * 1000 < options.suspend_ms:
        raise ConfigError(
            f"pull_timeout_seconds={options.pull_timeout_seconds:g}: expected more than "
            f"the {options.suspend_ms} ms (suspend_ms) that a broker waits for messages"
        )
