"""The problems of a suite: each with its location in a file, raised together as one error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TypeAlias

from dokimos._core.excerpt import format_excerpt
from dokimos._core.text import pluralize
from dokimos.errors import ConfigurationError

Steps: TypeAlias = tuple[str | int, ...]
"""The path to a value: keys and indices from the top of the file."""

MOST_SHOWN = 50


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A location in a file; line and column count from 1."""

    file: Path
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault."""

    message: str
    location: Location
    path: str = ""

    def __str__(self) -> str:
        return (
            f"{self.location}: {self.path}: {self.message}"
            if self.path
            else f"{self.location}: {self.message}"
        )


@contextmanager
def at_setting(key: str) -> Iterator[None]:
    """Note that a `ConfigurationError` of what is done meanwhile is the fault of one key of a block."""
    try:
        yield
    except ConfigurationError as error:
        error.setting = error.setting or key
        raise


def raise_problems(problems: Sequence[Problem]) -> None:
    """Raise `ConfigurationError` with all problems, in the order of the files, where there are any."""
    if not problems:
        return
    unique = sorted(dict.fromkeys(problems), key=lambda problem: problem.location)
    lines = [f"{problem}{_source_of(problem.location)}" for problem in unique[:MOST_SHOWN]]
    if len(unique) > MOST_SHOWN:
        lines.append(f"... and {len(unique) - MOST_SHOWN} more")
    if len(lines) == 1:
        raise ConfigurationError(lines[0])
    raise ConfigurationError("\n  ".join([f"{pluralize(len(unique), 'problem')} in the suite:", *lines]))


def _source_of(location: Location) -> str:
    """Return the line of a file that is meant, with a caret below it; nothing where it cannot be read."""
    try:
        text = location.file.read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return ""
    excerpt = format_excerpt(text, location.line, location.column)
    return f"\n{excerpt}" if excerpt else ""


def format_path(steps: Iterable[str | int]) -> str:
    """Return `evaluations.metrics[0].threshold`."""
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text


def suggest(name: object, known: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?`, or nothing where no name is similar."""
    matches = get_close_matches(str(name), list(known), n=1)
    return f" Did you mean {matches[0]!r}?" if matches else ""


def format_case_name(value: object, steps: Steps) -> str:
    """Return ` (case 'x')` where the steps lead into a case that has a name."""
    if len(steps) < 2 or steps[0] != "test_cases" or not isinstance(value, Mapping):
        return ""
    cases, index = value.get("test_cases"), steps[1]
    if not isinstance(cases, list) or not isinstance(index, int) or index >= len(cases):
        return ""
    name = cases[index].get("name") if isinstance(cases[index], Mapping) else None
    return f" (case {name!r})" if isinstance(name, str) else ""
