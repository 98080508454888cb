"""Which epochs a sink has begun and ended, and where its queues were before each of them: what a restarted driver needs
to find what the one before it has written.

::

    sink.json                            the id of this sink, made once
    EPOCH-RUN.begun                      before run RUN of epoch EPOCH writes its first message
    EPOCH-RUN.done                       when all messages of the epoch are acknowledged

Files appear whole and are never changed. A run is one attempt of a driver at an epoch; their numbers only grow. Only
the last epoch can come again, so older files are removed.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol, TypeVar

import msgspec

from apogeemq.client import MessageQueue
from apogeemq.errors import StorageFailed, Superseded

T = TypeVar("T")

_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{10})\.(begun|done)")
_BEGUN: Final = "begun"
_DONE: Final = "done"
_SINK: Final = "sink.json"
_KEPT_EPOCHS: Final = 2

Starts = dict[MessageQueue, int]


class Folder(Protocol):
    """Of the checkpoint's file system. Raises StorageFailed."""

    def read(self, name: str) -> bytes | None: ...

    def create(self, name: str, data: bytes) -> bool:
        """Whole or not at all; False when the name is taken."""
        ...

    def names(self, name: str) -> list[str]: ...

    def delete(self, name: str) -> None: ...


class IdSource(msgspec.Struct, frozen=True):
    """What the ids of an epoch's rows are made of. Without `columns`, of where their source messages were."""

    query_id: str
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"queryId {self.query_id} and " + (
            f"idColumns {','.join(self.columns)}" if self.columns else "no idColumns"
        )


class EpochRun(msgspec.Struct, frozen=True):
    """`starts` are by topic, broker and queue the offsets from which messages of this epoch may be. Topics stay in the
    order in which they were noted; see `fence_of`."""

    epoch: int
    run: int
    starts: dict[str, dict[str, dict[str, int]]]
    ids: IdSource | None = None  # of a ledger that did not keep it yet

    def queues(self) -> Starts:
        return {
            MessageQueue(broker, int(queue_id), topic): offset
            for topic, brokers in self.starts.items()
            for broker, queues in brokers.items()
            for queue_id, offset in queues.items()
        }


class _Sink(msgspec.Struct):
    id: str


class _Done(msgspec.Struct):
    rows: int = 0


class LastRun(NamedTuple):
    """`rows` are those of its epoch, once that is done."""

    entry: EpochRun
    rows: int | None

    @property
    def is_done(self) -> bool:
        return self.rows is not None


class EpochLedger:
    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def sink_id(self) -> str:
        """The same for as long as the folder is there."""
        data = self._folder.read(_SINK)
        if data is None:
            self._folder.create(_SINK, msgspec.json.encode(_Sink(uuid.uuid4().hex)))
            data = self._folder.read(_SINK)
        return self._decoded(_SINK, data, _Sink).id

    def last(self) -> LastRun | None:
        last = self._last_begun()
        if last is None:
            return None
        epoch, run = last
        name = _name(epoch, run, _BEGUN)
        entry = self._decoded(name, self._folder.read(name), EpochRun)
        done = sorted(name for of, _, state, name in self._entries() if of == epoch and state == _DONE)
        rows = self._decoded(done[0], self._folder.read(done[0]), _Done).rows if done else None
        return LastRun(entry, rows)

    def begin(self, epoch: int, run: int, starts: Mapping[MessageQueue, int], ids: IdSource) -> EpochRun:
        """Superseded when another driver has begun this run, or a later one or a later epoch."""
        entry = EpochRun(epoch, run, _nested(starts), ids)
        if not self._folder.create(_name(epoch, run, _BEGUN), msgspec.json.encode(entry)):
            raise Superseded(f"run {run} of epoch {epoch} has been begun by another driver")
        self.check_last(entry)  # now: before, others could still come between, and files of old epochs are removed
        return entry

    def end(self, entry: EpochRun, rows: int) -> None:
        self._folder.create(_name(entry.epoch, entry.run, _DONE), msgspec.json.encode(_Done(rows)))
        for epoch, _, _, name in self._entries():
            if epoch <= entry.epoch - _KEPT_EPOCHS:
                self._folder.delete(name)

    def is_last(self, entry: EpochRun) -> bool:
        """Whether no other driver has begun anything since."""
        return self._last_begun() == (entry.epoch, entry.run)

    def check_last(self, entry: EpochRun) -> None:
        """Raises Superseded unless it is the last."""
        if not self.is_last(entry):
            raise Superseded(
                f"run {entry.run} of epoch {entry.epoch} has been superseded: another driver has begun a later one"
            )

    def _last_begun(self) -> tuple[int, int] | None:
        return max(((epoch, run) for epoch, run, state, _ in self._entries() if state == _BEGUN), default=None)

    def _entries(self) -> Iterable[tuple[int, int, str, str]]:
        for name in self._folder.names(""):
            if (match := _NAME.fullmatch(name)) is not None:
                yield int(match[1]), int(match[2]), match[3], name

    def _decoded(self, name: str, data: bytes | None, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(data or b"", type=kind)
        except msgspec.MsgspecError as error:
            raise StorageFailed(f"{name} of the sink's ledger cannot be read: {error}") from None


def _name(epoch: int, run: int, state: str) -> str:
    return f"{epoch:020d}-{run:010d}.{state}"


def _nested(starts: Mapping[MessageQueue, int]) -> dict[str, dict[str, dict[str, int]]]:
    nested: dict[str, dict[str, dict[str, int]]] = {}
    for queue, offset in starts.items():
        nested.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[str(queue.queue_id)] = offset
    return nested
