"""Long polling: pulls that found nothing wait here until a message comes that they want, or their time is over.

A message only marks its queue; the pulls held there are answered at the end of the loop's turn, so that messages that
came in together leave together.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future, TimerHandle
from collections.abc import Callable, Container

from apogeemq.store.message_store import MessageStore

Key = tuple[str, int]


class HeldPull:
    """`answer_again(is_last)` looks once more: bytes to send, or None to go on waiting (never when it is the last)."""

    __slots__ = ("answer", "answer_again", "offset", "timer", "wanted_tags")

    def __init__(
        self,
        answer: Future[bytes],
        offset: int,
        wanted_tags: Container[int] | None,
        answer_again: Callable[[bool], bytes | None],
    ) -> None:
        self.answer = answer
        self.offset = offset
        self.wanted_tags = wanted_tags
        self.answer_again = answer_again
        self.timer: TimerHandle | None = None


class HeldPulls:
    def __init__(self, loop: AbstractEventLoop, store: MessageStore, max_pulls: int) -> None:
        self._loop = loop
        self._store = store
        self._max_pulls = max_pulls
        self._held: dict[Key, list[HeldPull]] = {}
        self._woken: dict[HeldPull, Key] = {}
        self.count = 0

    def hold(
        self,
        key: Key,
        offset: int,
        wanted_tags: Container[int] | None,
        seconds: float,
        answer_again: Callable[[bool], bytes | None],
    ) -> Future[bytes] | None:
        """The answer to come; None when no more pulls can be held."""
        if self.count >= self._max_pulls:
            return None
        pull = HeldPull(self._loop.create_future(), offset, wanted_tags, answer_again)
        self._held.setdefault(key, []).append(pull)
        self.count += 1
        self._store.waiting[key] = self._waiter(key)
        pull.timer = self._loop.call_later(seconds, self._serve, key, pull, True)
        pull.answer.add_done_callback(lambda _: self._drop(key, pull))
        return pull.answer

    def wake_all(self, topic: str) -> None:
        """Something about the topic has changed: whoever waits must look again."""
        for key in [key for key in self._held if key[0] == topic]:
            for pull in tuple(self._held[key]):
                self._wake(key, pull)

    def release_all(self) -> None:
        """Answer them now and hold no more: nothing will come."""
        self._max_pulls = 0
        for key, pulls in tuple(self._held.items()):
            for pull in tuple(pulls):
                self._serve(key, pull, True)

    def _waiter(self, key: Key) -> Callable[[int, int, int, bytes], None]:
        def arrived(queue_offset: int, tags_code: int, store_time: int, properties: bytes) -> None:
            for pull in self._held.get(key, ()):
                if queue_offset >= pull.offset and (pull.wanted_tags is None or tags_code in pull.wanted_tags):
                    self._wake(key, pull)

        return arrived

    def _wake(self, key: Key, pull: HeldPull) -> None:
        if not self._woken:
            self._loop.call_soon(self._serve_woken)
        self._woken[pull] = key

    def _serve_woken(self) -> None:
        woken, self._woken = self._woken, {}
        for pull, key in woken.items():
            self._serve(key, pull, False)

    def _serve(self, key: Key, pull: HeldPull, is_last: bool) -> None:
        if pull.answer.done():
            return
        try:
            answer = pull.answer_again(is_last)
        except Exception as error:
            pull.answer.set_exception(error)
            return
        if answer is not None:
            pull.answer.set_result(answer)

    def _drop(self, key: Key, pull: HeldPull) -> None:
        """Answered, or its connection is gone."""
        if pull.timer is not None:
            pull.timer.cancel()
        held = self._held[key]
        held.remove(pull)
        self.count -= 1
        if not held:
            del self._held[key]
            self._store.waiting.pop(key, None)
