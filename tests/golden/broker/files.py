"""The form of the golden answers: readable in a diff, one block a step.

::

    # Apache RocketMQ 5.5.0, broker with its defaults
    # what the scenario is about

    [name of the step]
    {"code": 0, …}

`[name] silence` stands for "nothing was sent", `[name] closed` for "the connection was closed".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

SILENCE = "silence"
CLOSED = "closed"
Kept = dict[str, Any] | str
Answers = dict[str, Kept]
_WIDTH = 200


def dump(about: Iterable[str], answers: Mapping[str, Kept]) -> str:
    """A golden file's text."""
    parts = ["".join(f"# {line}\n" for line in about)]
    for name, kept in answers.items():
        parts.append(f"[{name}] {kept}\n" if isinstance(kept, str) else f"[{name}]\n{_pretty(kept)}\n")
    return "\n".join(parts)


def load(text: str) -> Answers:
    """The answers of a golden file, in order."""
    answers: Answers = {}
    for block in text.split("\n\n"):
        if block.startswith("#") or not block.strip():
            continue
        head, _, rest = block.strip("\n").partition("\n")
        name, _, word = head.removeprefix("[").partition("]")
        assert name not in answers, f"two steps called {name}"
        answers[name] = word.strip() or json.loads(rest)
    return answers


def read(path: Path) -> Answers:
    return load(path.read_text())


def _pretty(value: Any, indent: str = "") -> str:
    """JSON, on one line as long as it fits."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(flat) <= _WIDTH or not isinstance(value, dict | list) or not value:
        return flat
    deeper = indent + " "
    if isinstance(value, list):
        items = [_pretty(item, deeper) for item in value]
    else:
        items = [f"{json.dumps(key, ensure_ascii=False)}: {_pretty(item, deeper)}" for key, item in value.items()]
    first, last = ("[", "]") if isinstance(value, list) else ("{", "}")
    return first + "\n" + ",\n".join(deeper + item for item in items) + "\n" + indent + last
