"""What the blocking twin of an asyncio client is made of."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, ParamSpec, Protocol, Self, TypeAlias, TypeVar

from apogeemq.blocking.background import INTERRUPT_SECONDS, BackgroundLoop, background_loop
from apogeemq.errors import WrongState

P = ParamSpec("P")
T = TypeVar("T")

Leave: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class AsyncClient(Protocol):
    @property
    def group(self) -> str: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class BlockingClient:
    """Its methods are those of the asyncio client, may be called from any thread, and return when the work is done."""

    def __init__(self, client: AsyncClient) -> None:
        self._twin = client
        self._background: BackgroundLoop | None = None
        self._leaving: asyncio.Task[None] | None = None

    @property
    def group(self) -> str:
        return self._twin.group

    # -- life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Connect and join. WrongState when it runs already or has ended, or its group is in use in this process."""
        try:
            self._call(self._twin.start)
        except Exception:
            raise
        except BaseException:  # interrupted: nobody would know that it runs
            self._begin(self._abandoned)
            raise
        self._background = self._home()
        self._background.opened(self._abandoned)

    def stop(self) -> None:
        """Finish what is on its way, then leave. In a forked child it does nothing: the client is the parent's."""
        self._leave(self._twin.stop)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave(lambda: self._twin.__aexit__(kind, error, trace))

    def _leave(self, leave: Leave) -> None:
        if not self._is_of_parent:
            self._call(self._left, leave)

    async def _left(self, leave: Leave) -> None:
        """Once, however many threads ask for it; all of them wait for that."""
        background = self._home()
        background.closed(self._abandoned)
        if self._leaving is None:
            self._leaving = background.finish(self._ended(leave))
        await asyncio.shield(self._leaving)

    async def _abandoned(self) -> None:
        """Stopped by us, not by the program: nobody says that it is done with what it was given."""
        await self._left(lambda: self._twin.__aexit__(WrongState, WrongState("nobody has stopped it"), None))

    async def _ended(self, leave: Leave) -> None:
        """For those who keep more than the asyncio client does."""
        await leave()

    # -- calls -----------------------------------------------------------------------------------------------

    @property
    def _is_of_parent(self) -> bool:
        return self._background is not None and self._background.process_id != os.getpid()

    @property
    def _is_running(self) -> bool:
        return self._background is not None and self._leaving is None and not self._is_of_parent

    def _may_wait(self) -> bool:
        """Whether it runs, and this thread is not the one that does the work."""
        background = self._background
        return background is not None and self._is_running and background.may_wait_here()

    def _home(self) -> BackgroundLoop:
        """WrongState in a child of the process it was started in."""
        if self._is_of_parent:
            raise WrongState(f"{self.group} was started before this process was forked; make a client of its own here")
        return self._background or background_loop()

    def _call(self, method: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **named: P.kwargs) -> T:
        """What the method gives or raises; it is called in the loop."""
        return self._home().run(lambda: method(*args, **named))

    def _wait(
        self,
        work: Callable[[], Coroutine[Any, Any, T]],
        *,
        on_unwanted: Callable[[T], None] | None = None,
        interrupt_seconds: float = INTERRUPT_SECONDS,
    ) -> T:
        """The same for those who must know when the caller was interrupted."""
        return self._home().run(work, on_unwanted=on_unwanted, interrupt_seconds=interrupt_seconds)

    def _begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Have it done before any later call, and wait for nothing."""
        self._home().begin(work)

    def _ask(self, question: Callable[[], T]) -> T:
        """What the asyncio client answers at once; but only its own loop may ask."""

        async def asked() -> T:
            return question()

        return self._call(asked)
