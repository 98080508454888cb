"""The status of one run, kept where others look for it and told to who listens."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence

import msgspec

from apogeemq.runtime.clock import now_ms
from apogeemq.spark.pipeline.progress import PipelineStatus, QueryStatus, State
from apogeemq.spark.pipeline.spec import PipelineSpec
from apogeemq.spark.pipeline.status import StateFolder

OnStatus = Callable[[PipelineStatus], None]


class Publisher:
    """`status` is what was published last."""

    def __init__(self, spec: PipelineSpec, folder: StateFolder, on_status: OnStatus | None, log_file: str) -> None:
        self._folder = folder
        self._on_status = on_status
        self.status = PipelineStatus(
            name=spec.name,
            state=State.STARTING,
            file=spec.file,
            process=os.getpid(),
            host=socket.gethostname(),
            checkpoint=spec.checkpoint or str(folder.checkpoint),
            log_file=log_file,
            is_bounded=spec.trigger.is_bounded or not spec.is_streaming,
            started_ms=now_ms(),
        )

    def know_master(self, master: str) -> None:
        self.status = msgspec.structs.replace(self.status, master=master)

    def publish(self, state: State, queries: Sequence[QueryStatus] = (), error: str | None = None) -> None:
        self.status = msgspec.structs.replace(
            self.status, state=state, error=error, updated_ms=now_ms(), queries=list(queries)
        )
        self._folder.write(self.status)
        if self._on_status is not None:
            self._on_status(self.status)


def interrupted(status: PipelineStatus, why: str) -> PipelineStatus:
    """What is left of a run that a person ended in the middle."""
    queries = [msgspec.structs.replace(query, is_active=False) for query in status.queries]
    return msgspec.structs.replace(status, state=State.STOPPED, error=why, updated_ms=now_ms(), queries=queries)
