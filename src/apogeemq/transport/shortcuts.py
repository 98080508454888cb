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
_MAX_DIGITS: Final = 10  # of an int32
_MAX_FRAME_SIZE: Final = 1024  # a question is short; longer frames are not worth a look
_MAX_SHORTCUTS: Final = 16_384  # some 300 bytes each; beyond, all are forgotten and learnt anew


class Shortcuts:
    def __init__(self, request_counts: dict[int, int]) -> None:
        # What stands before and after the number -> the request's code and the look-up that answers it
        self._known: dict[tuple[bytes, bytes], tuple[int, Shortcut]] = {}
        self._request_counts = request_counts

    def answer(self, frame: bytes) -> bytes | None:
        """The encoded answer, or None when the frame must be decoded."""
        if not self._known or len(frame) > _MAX_FRAME_SIZE:
            return None
        before, _, rest = frame.partition(_OPAQUE)
        opaque, _, after = rest.partition(b",")
        known = self._known.get((before, after))
        if known is None:
            return None
        code, (look_up, key) = known
        body = look_up(key)
        if body is None or not opaque.isdigit() or len(opaque) > _MAX_DIGITS:
            return None
        self._request_counts[code] += 1
        return encode_ok_text(opaque, body)

    def learn(self, frame: bytes, command: Command, shortcut: Shortcut) -> None:
        """Only where the number is beyond doubt: it stands once, in digits, and reads as the decoder read it."""
        if len(frame) > _MAX_FRAME_SIZE or command.codec != JSON or command.flag != 0 or frame.count(_OPAQUE) != 1:
            return
        before, _, rest = frame.partition(_OPAQUE)
        opaque, comma, after = rest.partition(b",")
        if not comma or opaque != b"%d" % command.opaque or command.opaque < 0:
            return
        if len(self._known) >= _MAX_SHORTCUTS:
            self._known.clear()
        self._known[before, after] = (command.code, shortcut)
