"""Which messages of a sink are in its topic already."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from apogeemq.client import MessageQueue, PullStatus
from apogeemq.errors import DataLost, ProtocolError, RemoteRefused, RequestTimedOut
from apogeemq.model import properties as names
from apogeemq.protocol.record import split_record
from apogeemq.spark.cluster import Cluster
from apogeemq.spark.sink.ids import ID_SIZE

log = logging.getLogger(__name__)

_PULL: Final = 1024
_MAX_QUEUES: Final = 16  # read at once
_DIGITS: Final = 2 * ID_SIZE
_LOOK_AGAIN_SECONDS: Final = 0.05
_BEHIND_SECONDS: Final = 60.0
_NAME: Final = f"{names.UNIQUE_KEY}{names.NAME_END}".encode()
_LOG_END: Final = "commitLogMaxOffset"
_BEHIND: Final = "dispatchBehindBytes"


async def read_back(cluster: Cluster, starts: Mapping[MessageQueue, int], tag: bytes) -> set[bytes]:
    """The ids that begin with this tag among the messages of queues from these offsets to their ends of now."""
    some_queues = {queue.broker_name: queue for queue in starts}
    await asyncio.gather(*(_until_visible(cluster, queue) for queue in some_queues.values()))
    found: set[bytes] = set()
    waiting = iter(starts.items())
    digits = tag.hex().upper().encode()

    async def read_some() -> None:
        for queue, start in waiting:
            found.update(await _ids_of(cluster, queue, start, digits))

    await asyncio.gather(*(read_some() for _ in range(_MAX_QUEUES)))
    return found


async def _until_visible(cluster: Cluster, queue: MessageQueue) -> None:
    """Apache's brokers take a message into their log first and into its queue a little later: wait until all that is in
    the log now is in the queues."""
    consumer, loop = cluster.consumer, asyncio.get_running_loop()
    deadline, wanted = loop.time() + _BEHIND_SECONDS, -1
    while True:
        try:
            figures = await cluster.retried(lambda: consumer.broker_figures(queue))
            end, behind = int(figures[_LOG_END]), max(int(figures[_BEHIND]), 0)
        except (RemoteRefused, KeyError, ValueError) as problem:
            log.warning("%s does not say how far its queues are (%s)", queue.broker_name, problem)
            return
        wanted = end if wanted < 0 else wanted
        if end - behind >= wanted:
            return
        if loop.time() > deadline:
            raise RequestTimedOut(f"the queues of {queue.broker_name} are {behind} bytes behind its log for too long")
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)


async def _ids_of(cluster: Cluster, queue: MessageQueue, start: int, digits: bytes) -> set[bytes]:
    consumer = cluster.consumer
    end = await cluster.retried(lambda: consumer.max_offset(queue))
    least = await cluster.retried(lambda: consumer.min_offset(queue)) if end > start else start
    if end < start or least > start:
        why = f"the queue has messages from {least} to before {end}, and what was written before cannot be read back"
        raise DataLost(queue.topic, queue.broker_name, queue.queue_id, start, None, why)
    found, loop = set[bytes](), asyncio.get_running_loop()
    offset, deadline = start, loop.time() + _BEHIND_SECONDS
    while offset < end:
        result = await cluster.retried(lambda at=offset: consumer.pull_raw(queue, at, _PULL))  # type: ignore[misc]
        if result.status is PullStatus.OFFSET_ILLEGAL:
            raise DataLost(queue.topic, queue.broker_name, queue.queue_id, offset, None, "its broker has it no more")
        if result.status is PullStatus.FOUND:
            found.update(own_ids(result.records, digits))
        if result.next_offset > offset:
            offset, deadline = result.next_offset, loop.time() + _BEHIND_SECONDS
        elif loop.time() < deadline:  # a slave that has not got so far
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        else:
            raise RequestTimedOut(
                f"{queue.broker_name} gives nothing of topic {queue.topic}, queue {queue.queue_id} from offset "
                f"{offset} on, though it has said that the queue ends at {end}"
            )
    return found


def own_ids(records: bytes, digits: bytes) -> set[bytes]:
    """Of the records whose ids begin with these digits. Raises ProtocolError."""
    found: set[bytes] = set()
    position = 0
    while position < len(records):
        head, _, _, properties = split_record(records, position)
        position += head[0]
        text = _unique_key(properties)
        if text.startswith(digits) and len(text) == _DIGITS:
            try:
                found.add(bytes.fromhex(text.decode()))
            except ValueError as error:
                raise ProtocolError(f"the id {text!r} is not one: {error}") from None
    return found


def _unique_key(properties: bytes) -> bytes:
    at = properties.find(_NAME)
    while at > 0 and properties[at - 1 : at] != names.VALUE_END.encode():  # the end of another name
        at = properties.find(_NAME, at + 1)
    if at < 0:
        return b""
    begin = at + len(_NAME)
    end = properties.find(names.VALUE_END.encode(), begin)
    return properties[begin : end if end >= 0 else len(properties)]
