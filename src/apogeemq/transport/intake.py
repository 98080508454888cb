"""What comes in over one connection: bytes become frames, frames answers, and the answers one write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apogeemq.errors import ProtocolError
from apogeemq.protocol.codec import decode_frame, encode_reply
from apogeemq.protocol.codes import ResponseCode
from apogeemq.protocol.command import FLAG_ONE_WAY, FLAG_RESPONSE, Command
from apogeemq.protocol.framing import FrameReader
from apogeemq.transport.dispatch import BUSY_REMARK, Dispatcher, Reply
from apogeemq.transport.later import Later

if TYPE_CHECKING:
    from apogeemq.transport.channel import Channel


class Intake:
    """Belongs to one channel: that knows the connection, this knows frames and who answers them."""

    __slots__ = ("_dispatcher", "_most_unwritten", "reader")

    def __init__(self, dispatcher: Dispatcher, max_frame_size: int, most_unwritten: int) -> None:
        self._dispatcher = dispatcher
        self._most_unwritten = most_unwritten
        self.reader = FrameReader(max_frame_size)

    def take(self, channel: Channel, data: bytes) -> bool:
        """Serve every frame that is whole now; False when there is none."""
        reader, dispatcher = self.reader, self._dispatcher
        shortcuts, typed = dispatcher.usable_shortcuts(), dispatcher.typed_decoders()
        frames = reader.feed(data)
        answers: list[bytes] = []
        size = 0
        for frame in frames:
            if size > self._most_unwritten:
                if dispatcher.before_answers is not None:
                    dispatcher.before_answers()
                channel.write(b"".join(answers))
                answers, size = [], 0
            reply = shortcuts.answer(frame) if shortcuts is not None and not channel.is_write_paused else None
            if reply is None:
                try:
                    command = decode_frame(frame, typed)
                except ProtocolError as error:
                    reader.error = error
                    break
                reply = self._answer(channel, frame, command)
            if reply is not None:
                answers.append(reply)
                size += len(reply)
        if frames and dispatcher.before_answers is not None:
            dispatcher.before_answers()
        if answers:
            channel.write(answers[0] if len(answers) == 1 else b"".join(answers))
        return bool(frames)

    def _answer(self, channel: Channel, frame: bytes, command: Command) -> bytes | None:
        """The answer to write now, if there is one."""
        flag = command.flag
        if flag & FLAG_RESPONSE:
            channel.settle(command)
            return None
        if channel.is_write_paused and channel.must_refuse:
            answer: Reply = encode_reply(command, ResponseCode.SYSTEM_BUSY, BUSY_REMARK)
        else:
            answer = self._dispatcher.dispatch(channel, command)
        if not isinstance(answer, bytes):
            if isinstance(answer, Later):
                return channel.hold_later(command, answer)
            if answer is not None:
                channel.hold(command, answer)
            return None
        if flag & FLAG_ONE_WAY:
            return None
        if command.shortcut is not None:
            self._dispatcher.shortcuts.learn(frame, command, command.shortcut)
        return answer
