"""How a consumer is doing, as `mqadmin consumerStatus` and consoles show it."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Mapping
from io import StringIO
from typing import Any, Final

import msgspec

from apogeemq.client.consuming.figures import Figures
from apogeemq.client.consuming.offset_store import OffsetStore
from apogeemq.client.consuming.queue_reader import QueueReader
from apogeemq.model.queues import MessageQueue
from apogeemq.model.subscriptions import SubscriptionData
from apogeemq.protocol.bodies import consumers as bodies
from apogeemq.protocol.versions import CURRENT_NAME
from apogeemq.runtime.clock import monotonic_ms, now_ms

_MIB: Final = 1024 * 1024
_MAX_STACKS: Final = 256
_MAX_STACK_DEPTH: Final = 32


def running_info(
    properties: Mapping[str, str],
    subscriptions: list[SubscriptionData],
    readers: Mapping[MessageQueue, QueueReader],
    offsets: OffsetStore,
    figures: Figures,
) -> bodies.ConsumerRunningInfo:
    moment_ms = monotonic_ms()
    return bodies.ConsumerRunningInfo(
        properties={bodies.CLIENT_VERSION: CURRENT_NAME, **properties},
        subscriptions=subscriptions,
        queues={queue: _queue_info(reader, offsets) for queue, reader in readers.items()},
        statuses={one.topic: figures.of(one.topic).status(moment_ms) for one in subscriptions},
    )


def _queue_info(reader: QueueReader, offsets: OffsetStore) -> bodies.ProcessQueueInfo:
    process = reader.process
    first, last = process.cached_offsets
    known = offsets.known(reader.queue)
    return bodies.ProcessQueueInfo(
        cached_msg_count=len(process),
        cached_msg_min_offset=first,
        cached_msg_max_offset=last,
        cached_msg_size=process.size // _MIB,
        commit_offset=known if known >= 0 else (first if len(process) else reader.next_offset),
        droped=process.is_dropped,
        last_pull_timestamp=process.last_pull_ms,
        last_consume_timestamp=process.last_consume_ms(now_ms(), monotonic_ms()),
        last_lock_timestamp=process.last_lock_ms,
        locked=process.is_locked,
    )


def as_properties(options: msgspec.Struct) -> dict[str, str]:
    """The options by their names; what a tool prints, not what it understands."""
    return {name: str(value) for name, value in msgspec.structs.asdict(options).items()}


def stacks() -> str:
    """What every task of the loop and every thread is doing; of very many, the first."""
    text = StringIO()
    tasks = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    for task in tasks[:_MAX_STACKS]:
        text.write(f"task {task.get_name()} {_what(task)}\n")
        for frame in task.get_stack(limit=_MAX_STACK_DEPTH):
            traceback.print_list(traceback.extract_stack(frame, limit=1), file=text)
        text.write("\n")
    frames = sys._current_frames()
    for thread in threading.enumerate()[:_MAX_STACKS]:
        running = frames.get(thread.ident or 0)
        text.write(f"thread {thread.name}\n")
        if running is not None:
            traceback.print_list(traceback.extract_stack(running, limit=_MAX_STACK_DEPTH), file=text)
        text.write("\n")
    return text.getvalue()


def _what(task: asyncio.Task[Any]) -> str:
    return str(getattr(task.get_coro(), "__qualname__", task.get_coro()))
