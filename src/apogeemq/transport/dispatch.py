"""From a request's code to the handler that answers it."""

from __future__ import annotations

import logging
from asyncio import Future
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from apogeemq.errors import ApogeeError, RequestRefused
from apogeemq.protocol.codec import TYPED_START, TypedDecoders, encode_reply
from apogeemq.protocol.codes import ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.transport.later import Later
from apogeemq.transport.shortcuts import Shortcuts

if TYPE_CHECKING:
    from apogeemq.transport.channel import Channel

log = logging.getLogger(__name__)

# Bytes: the encoded answer. A future of bytes, or one to come later: the request is held. None: nothing to say.
Reply: TypeAlias = "bytes | Future[bytes] | Later | None"
Handler: TypeAlias = "Callable[[Channel, Command], Reply]"
BeforeHook: TypeAlias = "Callable[[Channel, Command], None]"
AfterHook: TypeAlias = "Callable[[Channel, Command, Reply], None]"

GO_AWAY_SINCE_VERSION: Final = 476  # clients after 5.3.1 know the answer "please go away"
BUSY_REMARK: Final = "[OVERLOAD]system busy, start flow control for a while"
MAX_REMARK_LENGTH: Final = 32 * 1024  # remarks quote what was asked, which may be as long as a frame; a header may not


class Dispatcher:
    """Answers requests by their code.

    A handler is a plain function; it may raise `RequestRefused`, and any other failure becomes SYSTEM_ERROR for
    this request alone. Hooks before the handler may refuse; hooks after it see the answer. `before_answers` is called
    when the requests of one read are served, before anything is written.
    """

    def __init__(self) -> None:
        self.handlers: dict[int, Handler] = {}
        self.before: list[BeforeHook] = []
        self.after: list[AfterHook] = []
        self.before_answers: Callable[[], None] | None = None
        self.request_counts: dict[int, int] = {}
        self.failure_count = 0
        self.is_going_away = False
        self.shortcuts = Shortcuts(self.request_counts)
        self._typed: TypedDecoders = {}

    def usable_shortcuts(self) -> Shortcuts | None:
        """None while every request must be looked at."""
        return None if self.before or self.after or self.is_going_away else self.shortcuts

    def typed_decoders(self) -> TypedDecoders | None:
        """None while hooks must see the extension fields."""
        return None if self.before or self.after or not self._typed else self._typed

    def register(self, code: int, handler: Handler, decode: Callable[[bytes], Command] | None = None) -> None:
        """With `decode`, commands are decoded by it wherever it can; what it cannot comes as it always does."""
        self.handlers[int(code)] = handler
        self.request_counts[int(code)] = 0
        start = b'{"code":%d,' % code
        self._typed.pop(start, None)
        if decode is not None and len(start) == TYPED_START:
            self._typed[start] = decode

    def dispatch(self, channel: Channel, command: Command) -> Reply:
        code = command.code
        handler = self.handlers.get(code)
        if handler is None:
            return encode_reply(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {code} not supported")
        self.request_counts[code] += 1
        if self.is_going_away and command.version >= GO_AWAY_SINCE_VERSION:
            return encode_reply(command, ResponseCode.GO_AWAY, "please go away")
        try:
            for hook in self.before:
                hook(channel, command)
            reply = handler(channel, command)
        except Exception as error:
            reply = self.failure_reply(command, error)
        if self.after:
            self._run_after_hooks(channel, command, reply)
        return reply

    def _run_after_hooks(self, channel: Channel, command: Command, reply: Reply) -> None:
        for hook in self.after:
            try:
                hook(channel, command, reply)
            except Exception:
                # The request has been served; others in the same read still wait for their answers.
                log.exception("a hook after request code %d failed", command.code)

    def failure_reply(self, command: Command, error: BaseException) -> bytes:
        """The answer to a request whose handler raised."""
        if isinstance(error, RequestRefused):
            return encode_reply(command, error.code, error.remark and _shortened(error.remark), error.fields)
        self.failure_count += 1
        if isinstance(error, ApogeeError):
            return encode_reply(command, ResponseCode.SYSTEM_ERROR, _shortened(str(error)))
        log.error("request code %d failed", command.code, exc_info=error)
        return encode_reply(command, ResponseCode.SYSTEM_ERROR, _shortened(f"{type(error).__name__}: {error}"))


def _shortened(remark: str) -> str:
    return remark if len(remark) <= MAX_REMARK_LENGTH else f"{remark[:MAX_REMARK_LENGTH]}…"
