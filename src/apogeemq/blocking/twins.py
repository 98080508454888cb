"""What the blocking twin of an asyncio client is made of."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from apogeemq.blocking.background import INTERRUPT_SECONDS, BackgroundLoop, background_loop
from apogeemq.errors import WrongState

T = TypeVar("T")


class AsyncClient(Protocol):
    @property
    def group(self) -> str: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class BlockingClient:
    """Its methods are those of the asyncio client, may be called from any thread, and return when the work is done."""

    def __init__(self, client: AsyncClient) -> None:
        self._twin = client
        self._background: BackgroundLoop | None = None

    @property
    def group(self) -> str:
        return self._twin.group

    def start(self) -> None:
        """Connect and join. WrongState when it runs already or has ended, or its group is in use in this process."""
        try:
            self._call(self._twin.start())
        except Exception:
            raise
        except BaseException:  # interrupted: nobody would know that it runs
            self._home().begin(self._stop())
            raise
        self._background = self._home()
        self._background.opened(self._stop)

    def stop(self) -> None:
        """Finish what is on its way, then leave. In a forked child it does nothing: the client is the parent's."""
        if not self._is_of_parent:
            background = self._home()
            background.closed(self._stop)
            self._call(background.finished(self._stop()))

    async def _stop(self) -> None:
        await self._twin.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def _is_of_parent(self) -> bool:
        return self._background is not None and self._background.process_id != os.getpid()

    def _home(self) -> BackgroundLoop:
        return self._background or background_loop()

    def _call(
        self,
        work: Coroutine[Any, Any, T],
        *,
        on_unwanted: Callable[[T], None] | None = None,
        interrupt_seconds: float = INTERRUPT_SECONDS,
    ) -> T:
        if self._is_of_parent:
            work.close()
            raise WrongState(f"{self.group} was started before this process was forked; make a client of its own here")
        return self._home().run(work, on_unwanted=on_unwanted, interrupt_seconds=interrupt_seconds)
