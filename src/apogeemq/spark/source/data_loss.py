"""Messages that were to be read and are no longer there, and what `failOnDataLoss` makes of it."""

from __future__ import annotations

import logging
from typing import NamedTuple

from apogeemq.errors import DataLost
from apogeemq.spark.source.ranges import OffsetRange

log = logging.getLogger(__name__)


class LossRule(NamedTuple):
    """True: reading ends with the error. False: it goes on with what there is, and says so."""

    fails: bool

    def report(self, loss: DataLost | None) -> None:
        if loss is None:
            return
        if self.fails:
            raise loss
        log.warning("%s; going on without them, because failOnDataLoss is false", loss)


def still_there(wanted: OffsetRange, least: int) -> tuple[OffsetRange, DataLost | None]:
    """What is left of a range in a queue whose oldest message is `least`.

    A range that ends before it starts is of a queue that was made anew: all of it is new.
    """
    if wanted.end < wanted.start:
        why = f"the queue ended at {wanted.end} after it had been read up to {wanted.start}: it was made anew"
        left = wanted._replace(start=min(least, wanted.end))
        return left, DataLost(*wanted[:3], wanted.end, wanted.start, why)
    if wanted.start >= least or wanted.start == wanted.end:
        return wanted, None
    left = wanted._replace(start=min(least, wanted.end))
    return left, DataLost(
        *wanted[:3], wanted.start, left.start, f"they have expired; the oldest that is left is {least}"
    )


def within(wanted: OffsetRange, least: int, end: int) -> tuple[OffsetRange, DataLost | None]:
    """What there is of a range that a person wrote down, in a queue that has offsets from `least` to before `end`."""
    left, loss = still_there(wanted, least) if wanted.start <= wanted.end else (wanted, None)
    if max(wanted.start, wanted.end) <= end:
        return left, loss
    left = left._replace(start=min(left.start, end), end=min(left.end, end))
    return left, loss or DataLost(*wanted[:3], end, max(wanted.start, wanted.end), f"the queue ends at {end}")
