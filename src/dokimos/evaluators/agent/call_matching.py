"""Pairing the calls that an agent made with those that were expected."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from dokimos.core.agent import ToolCall
from dokimos.evaluators.agent.argument_matching import ArgumentCheck, ArgumentMatcher, ignores_arguments
from dokimos.evaluators.agent.values import same_mapping
from dokimos.evaluators.bipartite import maximum_matching

CallCheck: TypeAlias = Callable[[ToolCall, ToolCall], bool]
"""A function of (expected call, actual call)."""

TOLERANT: Final = ArgumentMatcher("exact")


@dataclass(frozen=True, slots=True)
class CallMatcher:
    """Says whether a call is the expected one: by its name, and by its arguments."""

    arguments: ArgumentCheck | None = None
    """None for the default: exact, but an expected call without arguments is matched by its name alone."""
    of_tool: Mapping[str, ArgumentCheck] = field(default_factory=dict)
    """Other checks for the arguments of some tools."""

    def __call__(self, expected: ToolCall, actual: ToolCall) -> bool:
        """Say whether the actual call is the expected one."""
        if expected.name != actual.name:
            return False
        check = self.of_tool.get(expected.name, self.arguments) if self.of_tool else self.arguments
        if check is None:
            if not expected.arguments or expected.is_told_alike(actual):
                return True
            return same_mapping(expected.arguments, actual.arguments) and _is_readable(actual)
        if ignores_arguments(check):
            return True
        return _is_readable(actual) and bool(check(expected.arguments, actual.arguments))


def _is_readable(call: ToolCall) -> bool:
    return not call.metadata or call.invalid_arguments is None


def in_place(expected: Sequence[ToolCall], actual: Sequence[ToolCall], check: CallCheck) -> bool:
    """Say whether each call is the one that was expected in its place."""
    return len(expected) == len(actual) and all(map(check, expected, actual))


def in_order(expected: Sequence[ToolCall], actual: Sequence[ToolCall], check: CallCheck) -> int:
    """Return the length of the longest common subsequence."""
    start, end = _common_ends(expected, actual, check)
    rows = expected[start : len(expected) - end]
    columns = actual[start : len(actual) - end]
    best = [0] * (len(columns) + 1)
    for wanted in rows:
        diagonal = 0
        for place, call in enumerate(columns, 1):
            above = best[place]
            best[place] = diagonal + 1 if check(wanted, call) else max(above, best[place - 1])
            diagonal = above
    return start + best[-1] + end


def pairs(expected: Sequence[ToolCall], actual: Sequence[ToolCall], check: CallCheck) -> dict[int, int]:
    """Pair as many calls as possible whatever their order; returns expected -> actual, by index."""
    found = _equal_pairs(expected, actual, check)
    if len(found) == min(len(expected), len(actual)):
        return found
    return _most_pairs(expected, actual, check)


def _equal_pairs(
    expected: Sequence[ToolCall], actual: Sequence[ToolCall], check: CallCheck
) -> dict[int, int]:
    """Pair calls that are equal to Python, which is quick to find and mostly all that there is to do."""
    free: list[Any] = [(call.name, call.arguments) for call in actual]
    found: dict[int, int] = {}
    for index, call in enumerate(expected):
        try:
            place = free.index((call.name, call.arguments))
        except Exception:  # there is none, or a value of somebody else's cannot be compared
            continue
        if check(call, actual[place]):
            found[index] = place
            free[place] = None
    return found


def _most_pairs(expected: Sequence[ToolCall], actual: Sequence[ToolCall], check: CallCheck) -> dict[int, int]:
    by_name: dict[str, list[int]] = {}
    for place, call in enumerate(actual):
        by_name.setdefault(call.name, []).append(place)
    known: dict[int, list[int]] = {}

    def fits(index: int) -> list[int]:
        found = known.get(index)
        if found is None:
            wanted = expected[index]
            places = by_name.get(wanted.name, ())
            found = known[index] = [place for place in places if check(wanted, actual[place])]
        return found

    return maximum_matching(range(len(expected)), fits)


def _common_ends(
    expected: Sequence[ToolCall], actual: Sequence[ToolCall], check: CallCheck
) -> tuple[int, int]:
    """Return how many calls match one by one at the start, and of the rest at the end."""
    shorter = min(len(expected), len(actual))
    start = 0
    while start < shorter and check(expected[start], actual[start]):
        start += 1
    end = 0
    while end < shorter - start and check(expected[-1 - end], actual[-1 - end]):
        end += 1
    return start, end
