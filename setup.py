"""Everything about the package is in pyproject.toml; here is only what that cannot say: how to compile a part of it.

With APOGEE_COMPILE=1 the modules every message passes through are compiled by mypyc, from the same text: the tests are
the same, the speed is not. That needs mypy and a C compiler; without the variable the package is pure Python.
"""

from __future__ import annotations

import os

from setuptools import setup

# What profiles of a busy broker and a busy client show. No module here may define a msgspec struct or subclass a class
# of asyncio's: those cannot be native.
HOT_MODULES = (
    "broker/handlers/pull",
    "broker/handlers/send",
    "broker/incoming",
    "broker/promises",
    "broker/putting",
    "broker/stats",
    "client/consuming/figures",
    "client/consuming/incoming",
    "client/consuming/offset_store",
    "client/consuming/process_queue",
    "client/consuming/progress",
    "client/consuming/pulling/lite_pull_positions",
    "client/consuming/pushing/delivery",
    "client/consuming/pushing/ordered_delivery",
    "client/producing/accumulator",
    "client/producing/batch_results",
    "client/producing/connections",
    "client/producing/destinations",
    "client/producing/direct_sends",
    "client/producing/gathered",
    "client/producing/lingering",
    "client/producing/outgoing",
    "client/producing/queue_choice",
    "client/producing/sending",
    "client/producing/window",
    "client/send_answers",
    "filter/tags",
    "model/delays",
    "model/ids",
    "model/properties",
    "model/received",
    "protocol/batch",
    "protocol/codec",
    "protocol/fields",
    "protocol/framing",
    "protocol/pull_requests",
    "protocol/record",
    "protocol/record_writing",
    "protocol/replies",
    "protocol/send_requests",
    "runtime/checksums",
    "runtime/clock",
    "runtime/unique_ids",
    "store/batch",
    "store/collecting",
    "store/commit_log",
    "store/consume_queue",
    "store/file_queue",
    "store/index_file",
    "store/key_hash",
    "store/key_index",
    "store/mapped_file",
    "store/message_marks",
    "store/message_store",
    "store/stored_topic",
    "transport/channel",
    "transport/direct/bulk_exchange",
    "transport/direct/exchange",
    "transport/dispatch",
    "transport/intake",
    "transport/later",
    "transport/pooled_channel",
    "transport/shortcuts",
)


def extensions() -> list[object]:
    if os.environ.get("APOGEE_COMPILE") != "1":
        return []
    from mypyc.build import mypycify

    return list(mypycify([f"src/apogeemq/{module}.py" for module in HOT_MODULES], opt_level="3", debug_level="0"))


setup(ext_modules=extensions())
