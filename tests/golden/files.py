"""The golden files' form: byte-exact, and still readable in a diff.

::

    # Apache RocketMQ 5.5.0, name server
    # second comment line

    [name of the frame]
    codec  0
    header b'{"code":0,…}'
    body   b''

Byte strings are Python literals. `[name] silence` stands for "nothing was sent". Lengths are not kept: they follow.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.golden.wire import Frame

Frames = dict[str, Frame | None]


def dump(about: Iterable[str], frames: Mapping[str, Frame | None]) -> str:
    """A golden file's text."""
    parts = ["".join(f"# {line}\n" for line in about)]
    for name, frame in frames.items():
        if frame is None:
            parts.append(f"[{name}] silence\n")
        else:
            parts.append(f"[{name}]\ncodec  {frame.codec}\nheader {frame.header!r}\nbody   {frame.body!r}\n")
    return "\n".join(parts)


def load(text: str) -> Frames:
    """The frames of a golden file, in order."""
    frames: Frames = {}
    for block in text.split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith("#")]
        if not lines:
            continue
        name, _, rest = lines[0].removeprefix("[").partition("]")
        assert name not in frames, f"two frames called {name}"
        frames[name] = None if rest == " silence" else _frame(lines[1:])
    return frames


def read(path: Path) -> Frames:
    return load(path.read_text())


def _frame(lines: list[str]) -> Frame:
    values = {key: ast.literal_eval(value.strip()) for key, _, value in (line.partition(" ") for line in lines)}
    return Frame(values["codec"], values["header"], values["body"])
