"""Match the calls that an agent made with those that were expected."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from dokimos._core.agent import ToolCall
from dokimos.evaluators._agent.accepted_values import (
    ExpectedCall,
    alternatives,
    arguments_as_written,
    every_alternative,
)
from dokimos.evaluators._agent.argument_matching import ArgumentCheck, ArgumentMatcher, ignores_arguments
from dokimos.evaluators._agent.argument_values import same_mapping
from dokimos.evaluators._bipartite import maximum_matching

Calls: TypeAlias = Sequence[ToolCall]
CallCheck: TypeAlias = Callable[[ToolCall, ToolCall], bool]
"""A function of (expected call, actual call)."""

BY_NAME: Final = ArgumentMatcher("ignore")
_EXACT: Final = ArgumentMatcher("exact")
_MAX_COMPARED_CALLS: Final = 16
"""Up to so many calls, comparing them one by one takes less time than making keys of them."""

_MOST_FAULTS: Final = 3


@dataclass(frozen=True, slots=True)
class CallMatcher:
    """Says whether a call is the expected one: by its name, and by its arguments."""

    arguments: ArgumentCheck | None = None
    """None for the default: exact, but an expected call without arguments is matched by its name alone."""
    of_tool: Mapping[str, ArgumentCheck] = field(default_factory=dict)
    """Other checks for the arguments of some tools."""

    def __call__(self, expected: ToolCall, actual: ToolCall) -> bool:
        """Return whether the actual call is the expected one."""
        if expected.name != actual.name:
            return False
        check = self._check(expected.name) if self.of_tool else self.arguments
        if check is None:
            if not expected.arguments or expected.has_same_arguments_text(actual):
                return True
            return same_mapping(expected.arguments, actual.arguments) and _is_readable(actual)
        if ignores_arguments(check):
            return True
        if not _is_readable(actual):
            return False
        if type(check) is ArgumentMatcher:  # one of a user's may have a __call__ of its own
            return check.compare(expected.arguments, actual.arguments)
        if isinstance(check, ArgumentMatcher):
            return bool(check(arguments_as_written(expected), actual.arguments))
        if not isinstance(expected, ExpectedCall):
            return bool(check(expected.arguments, actual.arguments))
        return any(check(each, actual.arguments) for each in every_alternative(expected.arguments))

    def key(self, call: ToolCall, *, expected: bool = True) -> Hashable:
        """Return a key that two calls share exactly if one matches the other, which was expected.

        That is the name alone where any call of the tool will do, and None where the two must be compared.
        """
        check = self._check(call.name)
        if check is None and expected and not call.arguments:
            return call.name
        if check is not None and ignores_arguments(check):
            return call.name
        exact = _EXACT if check is None else check
        try:
            key = exact.key(call.arguments) if isinstance(exact, ArgumentMatcher) else None
        except Exception:  # values of somebody else's
            return None
        return None if key is None else (call.name, key)

    def keys(self, expected: ToolCall) -> list[Hashable] | None:
        """Return the keys of the calls that an expected call with accepted values stands for.

        None where the call must be compared with each that was made.
        """
        if not isinstance(expected, ExpectedCall):
            return None
        check = self._check(expected.name)
        exact = _EXACT if check is None else check
        each = alternatives(expected.arguments, _MAX_COMPARED_CALLS)
        if each is None or not isinstance(exact, ArgumentMatcher):
            return None
        try:
            keys = [exact.key(arguments) for arguments in each]
        except Exception:  # values of somebody else's
            return None
        return None if None in keys else [(expected.name, key) for key in keys]

    def explain(self, expected: ToolCall, actual: ToolCall) -> list[str]:
        """Return what is wrong with each argument of a call of the expected tool, as far as that is known."""
        check = self._check(expected.name)
        if not _is_readable(actual):
            return ["the arguments are not a JSON object"]
        exact = _EXACT if check is None else check
        if not isinstance(exact, ArgumentMatcher):
            return []
        return exact.explain(expected.arguments, actual.arguments)

    def is_by_name(self, expected: ToolCall) -> bool:
        """Return whether any call of its tool is the expected one."""
        check = self._check(expected.name)
        return not expected.arguments if check is None else ignores_arguments(check)

    def _check(self, tool: str) -> ArgumentCheck | None:
        return self.of_tool.get(tool, self.arguments)


def _is_readable(call: ToolCall) -> bool:
    return not call.metadata or call.invalid_arguments is None


def in_place(expected: Calls, actual: Calls, check: CallCheck) -> bool:
    """Return whether each call is the one that was expected in its place."""
    return len(expected) == len(actual) and all(map(check, expected, actual))


def in_order(expected: Calls, actual: Calls, matcher: CallMatcher) -> int:
    """Return the length of the longest common subsequence.

    Hyyrö, "Bit-parallel LCS-length computation revisited" (2004), with one unbounded integer as the bits.
    """
    # Trajectories mostly differ in the middle; trimming both ends leaves the LCS a small table.
    start, end = _common_ends(expected, actual, matcher)
    columns = actual[start : len(actual) - end]
    index = _Index(columns, matcher)
    full = (1 << len(columns)) - 1
    row = full
    for expected_call in expected[start : len(expected) - end]:
        matches = row & index.bits(expected_call)
        row = ((row + matches) | (row - matches)) & full
    return start + len(columns) - row.bit_count() + end


def pairs(expected: Calls, actual: Calls, matcher: CallMatcher) -> dict[int, int]:
    """Pair as many calls as possible whatever their order; returns expected -> actual, by index."""
    # The usual case, a handful of equal calls, needs neither keys nor a matching.
    if len(expected) <= _MAX_COMPARED_CALLS >= len(actual):
        equal = _equal_pairs(expected, actual, matcher)
        if len(equal) == min(len(expected), len(actual)):
            return equal
    return _most_pairs(expected, actual, matcher)


def explain_nearest(expected: Calls, actual: Calls, matcher: CallMatcher) -> str:
    """Say how the first expected call that was made with other arguments differs from what was made.

    Args:
        expected: The calls that were not made.
        actual: The calls that were not expected.
        matcher: What compared them.

    Returns: A clause such as "convert: unit is 'm', expected 'km'"; empty where there is no such call.
    """
    for expected_call in expected:
        named = [call for call in actual if call.name == expected_call.name][:_MAX_COMPARED_CALLS]
        faults = min((matcher.explain(expected_call, call) for call in named), key=len, default=[])
        if faults:
            more = f" and {len(faults) - _MOST_FAULTS} more" if len(faults) > _MOST_FAULTS else ""
            return f"{expected_call.name}: {', '.join(faults[:_MOST_FAULTS])}{more}"
    return ""


def _equal_pairs(expected: Calls, actual: Calls, check: CallCheck) -> dict[int, int]:
    """Pair the calls that are equal in Python: a fast path that mostly pairs all of them."""
    # Mostly the calls are in the order that is expected, and each has the very text that is.
    if in_place(expected, actual, _are_written_alike) and in_place(expected, actual, check):
        return {index: index for index in range(len(expected))}
    free: list[Any] = [(call.name, call.arguments) for call in actual]
    paired: dict[int, int] = {}
    for index, call in enumerate(expected):
        try:
            match_index = free.index((call.name, call.arguments))
        except Exception:  # there is none, or a value of somebody else's cannot be compared
            continue
        if check(call, actual[match_index]):
            paired[index] = match_index
            free[match_index] = None
    return paired


def _are_written_alike(expected: ToolCall, actual: ToolCall) -> bool:
    return expected.name == actual.name and expected.has_same_arguments_text(actual)


def _most_pairs(expected: Calls, actual: Calls, matcher: CallMatcher) -> dict[int, int]:
    """Pair by exact key first, then calls that match by name alone, then those without a key."""
    index = _Index(actual, matcher)
    keys = [index.key(call) for call in expected]
    unkeyed = {call.name for call, key in zip(expected, keys, strict=True) if key is None}
    paired: dict[int, int] = {}
    for by_name in (False, True):
        for position, (call, key) in enumerate(zip(expected, keys, strict=True)):
            if call.name not in unkeyed and isinstance(key, str) is by_name:
                index.take(key, position, paired)
    rest = [position for position, call in enumerate(expected) if call.name in unkeyed]
    return {**paired, **maximum_matching(rest, lambda position: index.fitting(expected[position]))}


class _Index:
    """An index of the calls that were made, to look up those that match an expected call."""

    def __init__(self, actual: Calls, matcher: CallMatcher) -> None:
        self._actual = actual
        self._matcher = matcher
        self._places: dict[Hashable, list[int]] = {}
        self._unkeyed: set[str] = set()
        for position, call in enumerate(actual):
            self._places.setdefault(call.name, []).append(position)
            if not _is_readable(call):
                continue
            key = matcher.key(call, expected=False)
            if key is None:
                self._unkeyed.add(call.name)
            elif key != call.name:
                self._places.setdefault(key, []).append(position)
        self._bits: dict[Hashable, int] = {}
        self._compared: dict[int, list[int]] = {}
        self._next: dict[Hashable, int] = {}
        self._taken: set[int] = set()

    def key(self, expected: ToolCall) -> Hashable:
        """Return the key of an expected call; None where it must be compared with each call of its tool."""
        key = self._matcher.key(expected)
        return None if expected.name in self._unkeyed and key != expected.name else key

    def fitting(self, expected: ToolCall) -> Sequence[int]:
        """Return the positions of the calls that match the expected one."""
        key = self.key(expected)
        if key is not None:
            return self._places.get(key, ())
        positions = self._compared.get(id(expected))
        if positions is None:
            positions = self._compared[id(expected)] = self._find(expected)
        return positions

    def _find(self, expected: ToolCall) -> list[int]:
        keys = None if expected.name in self._unkeyed else self._matcher.keys(expected)
        if keys is not None:
            return sorted({position for key in keys for position in self._places.get(key, ())})
        named = self._places.get(expected.name, ())
        return [position for position in named if self._matcher(expected, self._actual[position])]

    def bits(self, expected: ToolCall) -> int:
        """Return the same positions as a bit mask."""
        key = self.key(expected)
        if key is None:
            # Unique while the expected calls live, which is longer than this index.
            key = id(expected)
        cached_bits = self._bits.get(key)
        if cached_bits is None:
            cached_bits = self._bits[key] = sum(1 << position for position in self.fitting(expected))
        return cached_bits

    def take(self, key: Hashable, expected_index: int, paired: dict[int, int]) -> None:
        """Pair an expected call with the first unpaired call under a key, if there is one."""
        positions = self._places.get(key, ())
        for number in range(self._next.get(key, 0), len(positions)):
            self._next[key] = number + 1
            if positions[number] not in self._taken:
                self._taken.add(positions[number])
                paired[expected_index] = positions[number]
                return


def _common_ends(expected: Calls, actual: Calls, check: CallCheck) -> tuple[int, int]:
    """Return how many calls match one by one at the start, and of the rest at the end."""
    shorter = min(len(expected), len(actual))
    start = 0
    while start < shorter and check(expected[start], actual[start]):
        start += 1
    end = 0
    while end < shorter - start and check(expected[-1 - end], actual[-1 - end]):
        end += 1
    return start, end
