"""Several prompts and providers: what makes their suites the columns of one matrix."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dokimos.importers._promptfoo.templates import escape

_LONGEST: Final = 200
"""Of a prompt so many characters name its column."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A suite, and its cases by the places of their tests in the configuration."""

    suite: dict[str, Any]
    cases: Mapping[int, dict[str, Any]]


def describe_grid(name: str, prompts: Sequence[str], providers: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield what each suite says of the grid, prompt by prompt; nothing where there is one suite.

    All suites have one experiment, named after the configuration. The metadata of their runs have the prompt
    and the provider, and name which of the two there are several of.
    """
    sizes = {"prompt": len(prompts), "provider": len(providers)}
    axes = [key for key, size in sizes.items() if size > 1]
    labels = _tell_apart(providers)
    for prompt in _tell_apart(prompts):
        for provider in labels:
            place = {"prompt": escape(prompt), "provider": escape(provider)}
            yield {"experiment": escape(name), "metadata": {"matrix": axes, **place}} if axes else {}


def number_names(suites: Collection[Placed]) -> None:
    """Number cases of equal names by their tests, so that a name is the same test in all suites.

    A suite numbers them by itself, but by its own cases: where a test is left out of one suite, the numbers
    of two suites would be of different tests.
    """
    if len(suites) < 2:
        return
    numbers = _Numbers()
    names: dict[int, str] = {}
    for place in sorted({place for one in suites for place in one.cases}):
        names[place] = numbers.name(next(one.cases[place]["name"] for one in suites if place in one.cases))
    for one in suites:
        for place, case in one.cases.items():
            case["name"] = names[place]


def _tell_apart(texts: Sequence[str]) -> list[str]:
    """Return texts in one line, cut, and numbered where they would be equal: equal ones are one column."""
    numbers = _Numbers()
    flat = [" ".join(text.split()) for text in texts]
    cut = [text if len(text) <= _LONGEST else f"{text[:_LONGEST].rstrip()}…" for text in flat]
    return [numbers.name(text or "prompt") for text in cut]


@dataclass(slots=True)
class _Numbers:
    """Gives names that no earlier one has, as suites do for their cases."""

    taken: set[str] = field(default_factory=set)
    latest: dict[str, int] = field(default_factory=dict)

    def name(self, text: str) -> str:
        name = text
        while name in self.taken:
            self.latest[text] = self.latest.get(text, 1) + 1
            name = f"{text} ({self.latest[text]})"
        self.taken.add(name)
        return name
