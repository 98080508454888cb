"""Everything that is wrong with a pipeline file, collected before any of it is said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final, NamedTuple

from apogeemq.errors import PipelineInvalid

Path = tuple[str, ...]

_NEAR_ENOUGH: Final = 0.6


class Problem(NamedTuple):
    line: int
    sentence: str


class Problems:
    """The list, and the places of the file that its sentences point to."""

    def __init__(self, file: str, lines: Mapping[Path, int]) -> None:
        self.file = file
        self._lines = lines
        self._found: dict[Problem, None] = {}
        self._hidden: set[Path] = set()

    def add(self, path: Path, sentence: str) -> None:
        """`path` is of a table or key; of one that is missing, the line is that of the table it is missing from."""
        if not any(path[:length] in self._hidden for length in range(1, len(path) + 1)):
            self.add_at(self.line_of(path), sentence)

    def add_at(self, line: int, sentence: str) -> None:
        self._found[Problem(line, sentence)] = None

    def hide(self, path: Path) -> None:
        """What stands there needs something that is missing, which has been said: whatever else is wrong follows."""
        self._hidden.add(path)

    def line_of(self, path: Path) -> int:
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 1)

    def __len__(self) -> int:
        return len(self._found)

    def texts(self) -> list[str]:
        return [f"{self.file}:{problem.line}: {problem.sentence}" for problem in sorted(self._found)]

    def raise_if_any(self) -> None:
        if self._found:
            raise PipelineInvalid(self.file, self.texts())


def hint(word: str, known: Iterable[str]) -> str:
    """The nearest known name as the end of a sentence, or, of few that are all far, those there are."""
    by_lower_case = {name.lower(): name for name in known}
    near = get_close_matches(word.lower(), by_lower_case, n=1, cutoff=_NEAR_ENOUGH)
    if near:
        return f"; did you mean {by_lower_case[near[0]]}?"
    return (
        f"; there {'is' if len(by_lower_case) == 1 else 'are'} {', '.join(by_lower_case.values())}"
        if (0 < len(by_lower_case) <= 12)
        else ""
    )


def only_near(word: str, known: Iterable[str]) -> str:
    """The same where a list of all there are would say too much, or was said."""
    said = hint(word, known)
    return said if "did you mean" in said else ""
