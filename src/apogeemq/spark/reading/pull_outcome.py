"""What an answer to a pull of some offsets means for whoever wants every one of them. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from apogeemq.client import PullStatus, RawPullResult
from apogeemq.errors import ApogeeError, ProtocolError

PASSED_OVER: Final = "the broker passed over them"


class Outcome(NamedTuple):
    """Where to go on; and why the offsets before that are lost, if they are."""

    next_offset: int
    why_lost: str = ""


class NotThere(ApogeeError):
    """A broker does not have messages that it had. It may have them again: a slave that stands in catches up, a queue
    that was reset is read from where it is. If not, reading may go on at `next_offset`, or the queue has ended."""

    retriable = True

    def __init__(self, why: str, next_offset: int | None) -> None:
        super().__init__(why)
        self.next_offset = next_offset


def outcome_of(offset: int, answer: RawPullResult, *, is_filtered: bool) -> Outcome:
    """Of a pull at an offset that had a message once. Raises NotThere; ProtocolError for an answer that leads back."""
    status, following = answer.status, answer.next_offset
    has_moved = following > offset
    if status is PullStatus.FOUND:
        if not has_moved:
            raise ProtocolError(f"a pull at {offset} brought messages and the word to go on at {following}")
        return Outcome(following)
    if status is PullStatus.NO_MATCHED_MSG and has_moved:
        return Outcome(following, "" if is_filtered else PASSED_OVER)
    if status is PullStatus.OFFSET_ILLEGAL and offset < answer.min_offset:
        return Outcome(answer.min_offset, f"they have expired; the oldest that is left is {answer.min_offset}")
    if offset >= answer.max_offset:
        raise NotThere(f"the queue ends at {answer.max_offset}", None)
    raise NotThere(f"the broker does not find what it has at {offset}", following if has_moved else None)
