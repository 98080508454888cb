"""What `clusterList` and `brokerStatus` show of a broker: names and texts as Apache's.

One thread serves all requests, and the queues are written with the log: what Apache says of thread pools, page cache
locks and messages not dispatched yet is always 0 here.
"""

from __future__ import annotations

import math
import os
from itertools import pairwise
from typing import NamedTuple

from apogeemq.broker.config import BrokerConfig
from apogeemq.broker.putting import Putter
from apogeemq.broker.services.stat_windows import StatWindows
from apogeemq.broker.state import BrokerState
from apogeemq.broker.stats import Histogram
from apogeemq.broker.tables.delay_offsets import DelayOffsets
from apogeemq.model.topics import SCHEDULE_TOPIC
from apogeemq.protocol import versions
from apogeemq.store import look_ups

_RATE_WINDOWS_SECONDS = (10, 60, 600)
_UNITS = "KMGTPE"


class RuntimeParts(NamedTuple):
    """Whom to ask."""

    state: BrokerState
    windows: StatWindows
    putter: Putter
    delay_offsets: DelayOffsets


def runtime_info(parts: RuntimeParts, now_ms: int) -> dict[str, str]:
    state = parts.state
    figures: dict[str, object] = {
        "bootTimestamp": state.start_time_ms,
        "runtime": _duration(now_ms - state.start_time_ms),
        "brokerActive": "true",
        "brokerVersionDesc": versions.CURRENT_NAME,
        "startAcceptSendRequestTimeStamp": state.config.start_accept_send_request_time_stamp,
        **_put_figures(parts),
        **_rates(parts.windows),
        **_day_totals(parts.windows),
        **_store_figures(state),
        **_queue_figures(state),
        **_delay_figures(parts),
    }
    return {name: str(value) for name, value in sorted(figures.items())}


def _put_figures(parts: RuntimeParts) -> dict[str, object]:
    stats = parts.state.stats
    count = max(stats.put_total.times, 1)  # as Apache: never a division by 0
    return {
        "putMessageEntireTimeMax": round(stats.put_seconds.max_seconds * 1000),
        "getMessageEntireTimeMax": round(stats.get_seconds.max_seconds * 1000),
        "putMessageTimesTotal": count,
        "putMessageFailedTimes": parts.putter.failure_count,
        "putMessageSizeTotal": stats.put_total.size,
        "putMessageAverageSize": stats.put_total.size / count,
        "putMessageDistributeTime": _distribution(stats.put_seconds),
        "putLatency99": f"{stats.put_seconds.percentile(0.99) * 1000:.2f}",
        "putLatency999": f"{stats.put_seconds.percentile(0.999) * 1000:.2f}",
    }


def _rates(windows: StatWindows) -> dict[str, object]:
    """Each over 10, 60 and 600 seconds."""
    put, got, found, missed = zip(*map(windows.rates, _RATE_WINDOWS_SECONDS), strict=True)
    total = [hits + misses for hits, misses in zip(found, missed, strict=True)]
    rates = {
        "putTps": put,
        "getFoundTps": found,
        "getMissTps": missed,
        "getTotalTps": total,
        "getTransferredTps": got,
    }
    return {name: " ".join(map(str, values)) for name, values in rates.items()}


def _day_totals(windows: StatWindows) -> dict[str, object]:
    now, this_morning, yesterday = windows.totals(), windows.this_morning, windows.yesterday_morning
    return {
        "msgPutTotalYesterdayMorning": yesterday.put_messages,
        "msgPutTotalTodayMorning": this_morning.put_messages,
        "msgPutTotalTodayNow": now.put_messages,
        "msgGetTotalYesterdayMorning": yesterday.got_messages,
        "msgGetTotalTodayMorning": this_morning.got_messages,
        "msgGetTotalTodayNow": now.got_messages,
    }


def _store_figures(state: BrokerState) -> dict[str, object]:
    store, disk_ratio = state.store, math.ceil(state.opened.disk.used_percent) / 100
    disk = os.statvfs(store.root)
    total, free = disk.f_blocks * disk.f_frsize, disk.f_bfree * disk.f_frsize
    return {
        "commitLogMinOffset": store.log.min_offset,
        "commitLogMaxOffset": store.log.max_offset,
        "commitLogDiskRatio": disk_ratio,
        f"commitLogDiskRatio_{store.log.files.folder}": disk_ratio,
        "consumeQueueDiskRatio": disk_ratio,
        "commitLogDirCapacity": f"Total : {readable_size(total)}, Free : {readable_size(free)}.",
        "earliestMessageTimeStamp": look_ups.earliest_log_time(store),
        "remainHowManyDataToFlush": readable_size(max(store.log.max_offset - store.log.flushed_offset, 0)),
        "remainTransientStoreBufferNumbs": 0,
        "dispatchMaxBuffer": 0,
        "dispatchBehindBytes": 0,
        "pageCacheLockTimeMills": 0,
    }


def _queue_figures(state: BrokerState) -> dict[str, object]:
    config: BrokerConfig = state.config
    capacities = {
        "send": config.send_thread_pool_queue_capacity,
        "pull": config.pull_thread_pool_queue_capacity,
        "litePull": config.lite_pull_thread_pool_queue_capacity,
        "query": config.query_thread_pool_queue_capacity,
        "ack": config.ack_thread_pool_queue_capacity,
    }
    figures: dict[str, object] = {}
    for name, capacity in capacities.items():
        figures[f"{name}ThreadPoolQueueSize"] = 0
        figures[f"{name}ThreadPoolQueueHeadWaitTimeMills"] = 0
        figures[f"{name}ThreadPoolQueueCapacity"] = capacity
    figures["sendThreadPoolQueueSize"] = len(state.promises)  # sends that wait for the disk
    figures["EndTransactionQueueSize"] = 0
    figures["EndTransactionThreadPoolQueueCapacity"] = config.end_transaction_pool_queue_capacity
    return figures


def _delay_figures(parts: RuntimeParts) -> dict[str, object]:
    figures: dict[str, object] = {
        "timerReadBehind": 0,
        "timerOffsetBehind": 0,
        "timerCongestNum": 0,
        "timerEnqueueTps": 0.0,
        "timerDequeueTps": 0.0,
    }
    for level, offset in sorted(parts.delay_offsets.table.items()):
        queue = parts.state.store.queues.get((SCHEDULE_TOPIC, level - 1))
        figures[f"scheduleMessageOffset_{level}"] = f"{offset},{queue.max_offset if queue is not None else 0}"
    return figures


def _distribution(histogram: Histogram) -> str:
    """How many puts took how long."""
    bounds = [f"{bound * 1000:g}" for bound in histogram.bounds]
    names = [f"<={bounds[0]}ms", *(f"{low}~{high}ms" for low, high in pairwise(bounds))]
    names.append(f"{bounds[-1]}ms~")
    return " ".join(f"[{name}]:{count}" for name, count in zip(names, histogram.counts, strict=True))


def _duration(milliseconds: int) -> str:
    seconds = max(milliseconds, 0) // 1000
    days, hours, minutes = seconds // 86_400, seconds // 3_600 % 24, seconds // 60 % 60
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds % 60} seconds ]"


def readable_size(size: int) -> str:
    """As Apache writes sizes: `1.5 GiB`."""
    if size < 1024:
        return f"{size} B"
    exponent = min((size.bit_length() - 1) // 10, len(_UNITS))
    return f"{size / 1024**exponent:.1f} {_UNITS[exponent - 1]}iB"
