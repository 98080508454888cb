"""The producers of this process: one for a group and a connection, made when it is first needed and kept for the tasks
that follow."""

from __future__ import annotations

import os
import threading
from typing import Final

import msgspec

from apogeemq.blocking.background import background_loop
from apogeemq.client import Producer
from apogeemq.spark.connection import Connection
from apogeemq.spark.sink.write_options import WriteOptions

_INSTANCE: Final = "spark-sink"

_producers: dict[tuple[Connection, str, int, int], Producer] = {}
_making = threading.Lock()


def producer_of(options: WriteOptions) -> Producer:
    """Started. What differs between writes of one group is given with each send."""
    key = (options.connection, options.producer_group, options.topic_queues, options.send_timeout_ms)
    with _making:
        found = _producers.get(key)
        if found is None:
            # Brokers tell the producers of a group apart by their instance.
            client = msgspec.structs.replace(
                options.connection.client_options(),
                instance_name=f"{_INSTANCE}#{os.getpid()}#{len(_producers)}",
                unacknowledged_seconds=options.send_timeout_ms / 1000,
            )
            found = Producer(
                options.connection.name_server,
                options.producer_group,
                options=options.producer_options(),
                client=client,
            )
            background = background_loop()
            background.run(found.start)
            background.opened(found.stop)
            _producers[key] = found
        return found


def _leave_to_parent() -> None:
    """A forked child has none of its parent's threads and must not use its sockets."""
    global _producers, _making
    _producers, _making = {}, threading.Lock()


os.register_at_fork(after_in_child=_leave_to_parent)
