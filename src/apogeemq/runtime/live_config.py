"""A configuration changed while the process runs: first in its file, with the file's comments kept, then in effect."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from apogeemq.errors import SettingFrozen, StorageFailed
from apogeemq.runtime.atomic_file import write_atomically
from apogeemq.runtime.config import edit_properties, parse_properties

log = logging.getLogger(__name__)


class LiveConfigFile:
    """`prepare` is given keys and values, raises ConfigError for a bad one, and gives what makes them take effect."""

    def __init__(
        self,
        path: Path,
        known: frozenset[str],
        is_frozen: Callable[[str], bool],
        prepare: Callable[[Mapping[str, str]], Callable[[], None]],
    ) -> None:
        self._path = path
        self._known = known
        self._is_frozen = is_frozen
        self._prepare = prepare
        self._turn = asyncio.Lock()

    async def update(self, text: str) -> None:
        """Unknown keys are ignored, as Apache does. One key that is frozen or has a bad value refuses the whole update.

        One that has begun is finished even when whoever asked for it is gone. Raises SettingFrozen, ConfigError,
        StorageFailed.
        """
        await asyncio.shield(self._take(parse_properties(text)))

    async def _take(self, given: Mapping[str, str]) -> None:
        async with self._turn:
            frozen = next(filter(self._is_frozen, given), None)
            if frozen is not None:
                raise SettingFrozen(f"{frozen} cannot be changed over the network")
            wanted = {key: value for key, value in given.items() if key in self._known}
            if not wanted:
                return
            take_effect = self._prepare(wanted)
            await asyncio.to_thread(_save, self._path, wanted)
            log.info("configuration changed: %s", ", ".join(f"{key}={value}" for key, value in wanted.items()))
            take_effect()


def _save(path: Path, wanted: Mapping[str, str]) -> None:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        content = b""
    except OSError as error:
        raise StorageFailed(f"cannot read {path}: {error.strerror or error}") from error
    encoding = "utf-8"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        encoding = "latin-1"  # what Java takes such files to be in
        text = content.decode(encoding)
    write_atomically(path, edit_properties(text, wanted).encode(encoding))
