"""Answer a request that came before without taking it apart.

Clients ask the same few questions again and again, and nothing in the bytes differs but the opaque number. A
handler whose answer is a look-up may say so (`Command.shortcut`); from then on a frame that equals the one it
answered, but for that number, goes straight to the look-up. The look-up itself stays the authority: when it finds
nothing, the request takes the ordinary way.

Hooks see every request, so a server with hooks takes no shortcuts.
"""

from __future__ import annotations

from typing import Final

from apogeemq.protocol.codec import encode_ok_text
from apogeemq.protocol.command import JSON, Command, Shortcut

_OPAQUE: Final = b'"opaque":'
_OPAQUE_SIZE: Final = len(_OPAQUE)
_MAX_DIGITS: Final = 10  # of an int32
_MAX_FRAME_SIZE: Final = 1024  # a question is short; longer frames are not worth a look
_MAX_ENDINGS: Final = 8  # of one question: kinds of clients; each is compared in turn, so they must stay few
_MAX_SHORTCUTS: Final = 16_384  # some 300 bytes each; beyond, all are forgotten and learnt anew


class _Question:
    """A frame that was answered, from the number on, and what answers it."""

    __slots__ = ("after", "code", "key", "look_up")

    def __init__(self, after: bytes, code: int, shortcut: Shortcut) -> None:
        self.after = after
        self.code = code
        self.look_up, self.key = shortcut


class Shortcuts:
    def __init__(self, request_counts: dict[int, int]) -> None:
        # By what stands before the number. What stands after it differs only between kinds of clients: few.
        self._known: dict[bytes, list[_Question]] = {}
        self._count = 0
        self._request_counts = request_counts

    def answer(self, frame: bytes) -> bytes | None:
        """The encoded answer, or None when the frame must be decoded."""
        size = len(frame)
        if not self._count or size > _MAX_FRAME_SIZE:
            return None
        position = frame.find(_OPAQUE)
        if position < 0:
            return None
        questions = self._known.get(frame[:position])
        if questions is None:
            return None
        for question in questions:
            if frame.endswith(question.after):
                opaque = frame[position + _OPAQUE_SIZE : size - len(question.after)]
                if len(opaque) > _MAX_DIGITS or not opaque.isdigit():
                    continue  # it may be the end of a longer one
                body = question.look_up(question.key)
                if body is None:
                    return None
                self._request_counts[question.code] += 1
                return encode_ok_text(opaque, body)
        return None

    def learn(self, frame: bytes, command: Command, shortcut: Shortcut) -> None:
        """Only where the number is beyond doubt: it stands once, in digits, and reads as the decoder read it."""
        if len(frame) > _MAX_FRAME_SIZE or command.codec != JSON or command.flag != 0 or frame.count(_OPAQUE) != 1:
            return
        before, _, rest = frame.partition(_OPAQUE)
        opaque, comma, after = rest.partition(b",")
        if not comma or opaque != b"%d" % command.opaque or command.opaque < 0:
            return
        if self._count >= _MAX_SHORTCUTS:
            self._known.clear()
            self._count = 0
        questions = self._known.setdefault(before, [])
        after = comma + after
        kept = [question for question in questions if question.after != after][1 - _MAX_ENDINGS :]
        self._count += 1 + len(kept) - len(questions)
        self._known[before] = [*kept, _Question(after, command.code, shortcut)]
