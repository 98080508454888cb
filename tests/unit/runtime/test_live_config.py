"""A configuration changed while the process runs: first in its file, then in effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from apogeemq.errors import ConfigError, SettingFrozen, StorageFailed
from apogeemq.runtime.live_config import LiveConfigFile
from tests.unit.disk import file_size_limit
from tests.unit.event_loop import in_loop


class Changes:
    """Knows the keys a, b and frozen; a value `bad` is one. `seen` has the file's content when a change took effect."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seen: list[tuple[dict[str, str], str]] = []
        self.file = LiveConfigFile(path, frozenset(("a", "b", "frozen")), lambda key: key == "frozen", self._prepare)

    def _prepare(self, wanted: Mapping[str, str]) -> Callable[[], None]:
        if "bad" in wanted.values():
            raise ConfigError("a value is bad")
        return lambda: self.seen.append((dict(wanted), self.path.read_text()))


@in_loop
async def test_file_is_written_before_a_change_takes_effect(tmp_path: Path) -> None:
    changes = Changes(tmp_path / "x.conf")
    await changes.file.update("a=1\nunknown=2\n")
    assert changes.seen == [({"a": "1"}, "a=1\n")]


@pytest.mark.parametrize(
    ("text", "error"),
    [("a=1\nfrozen=2", SettingFrozen), ("a=1\nb=bad", ConfigError), ("a=\\u00zz", ConfigError)],
)
@in_loop
async def test_refused_update_leaves_everything_as_it_is(tmp_path: Path, text: str, error: type[Exception]) -> None:
    changes = Changes(tmp_path / "x.conf")
    with pytest.raises(error):
        await changes.file.update(text)
    assert changes.seen == []
    assert not changes.path.exists()


@in_loop
async def test_update_of_nothing_known_does_not_touch_the_file(tmp_path: Path) -> None:
    changes = Changes(tmp_path / "x.conf")
    for text in ("", "# a comment\n", "unknown=1\n"):
        await changes.file.update(text)
    assert changes.seen == []
    assert not changes.path.exists()


@in_loop
async def test_file_that_cannot_be_written_stops_the_change(tmp_path: Path) -> None:
    changes = Changes(tmp_path / "x.conf")
    with file_size_limit(1), pytest.raises(StorageFailed):
        await changes.file.update("a=1")
    assert changes.seen == []
