"""`ToolTrajectory`: compare the sequence of tool calls with the expected one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal, Self, TypeAlias, get_args

from dokimos._core.agent import ToolCall
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import format_list, pluralize, quote
from dokimos.evaluators._agent import call_matching
from dokimos.evaluators._agent.accepted_values import arguments_as_written
from dokimos.evaluators._agent.argument_matching import ARGUMENTS_SCHEMA, ArgumentMatching
from dokimos.evaluators._agent.base import (
    ExpectedCallsEvaluator,
    call_matcher,
    names_of,
    require_compared_arguments,
)
from dokimos.evaluators._agent.call_matching import CallMatcher, Calls
from dokimos.evaluators._setting_checks import check_option

TrajectoryMode: TypeAlias = Literal[
    "strict",
    "in_order",
    "any_order",
    "expected_in_actual",
    "actual_in_expected",
    "superset",
    "subset",
    "precision",
    "recall",
]
CANONICAL_MODES: Final[dict[str, TrajectoryMode]] = {
    "expected_in_actual": "superset",
    "actual_in_expected": "subset",
}
"""The older words for two modes; "superset" and "subset" of arguments mean the opposite."""


@dataclass(frozen=True, kw_only=True)
class ToolTrajectory(ExpectedCallsEvaluator):
    """Compares the agent's tool calls, names and arguments, with the expected ones.

    With n calls made, m expected, and k pairs (as many as possible): "strict" is 1 where each call is the one
    expected in its place; "in_order" the longest common subsequence / max(n, m); "any_order" k / max(n, m);
    "expected_in_actual" (also "superset") 1 where every expected call was made; "actual_in_expected" (also
    "subset") 1 where every call made was expected; "precision" k / n; "recall" k / m. Nothing made and
    nothing expected is 1.

    Example:
        >>> call = {"name": "search", "arguments": {"q": "jacket"}}
        >>> made, expected = {"toolCalls": [call, {"name": "buy"}]}, {"toolCalls": [call]}
        >>> case = EvalTestCase({}, made, expected_outputs=expected)
        >>> ToolTrajectory(mode="precision").evaluate(case).score
        0.5
    """

    mode: TrajectoryMode = "in_order"
    """How to compare: "strict", "in_order", "any_order", "expected_in_actual" (also "superset"),
    "actual_in_expected" (also "subset"), "precision" or "recall"."""
    arguments: ArgumentMatching | None = field(default=None, metadata={"json_schema": ARGUMENTS_SCHEMA})
    """How to compare arguments: "exact", "expected_in_actual" (also "subset"), "actual_in_expected" (also
    "superset"), "ignore", a map with `mode`, `trim_strings`, `ignore_case` and matchers for single
    `arguments`, or a function of (expected, actual). Unless given: exact, but an expected call without
    arguments is matched by its name."""
    tool_arguments: Mapping[str, ArgumentMatching] = field(
        default_factory=dict,
        metadata={"json_schema": {"type": "object", "additionalProperties": ARGUMENTS_SCHEMA}},
    )
    """How to compare the arguments of some tools, by name of the tool."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_option(self, "mode", self.mode, get_args(TrajectoryMode))
        _ = self._matcher  # validates now, not at the first case

    def score(self, case: EvalTestCase) -> Score:
        expected, actual = self.both(case)
        require_compared_arguments(expected, actual, self._matcher)
        value, matched = _RULES[self._canonical_mode](expected, actual, self._matcher)
        metadata = {
            "matchMode": self.mode.upper(),
            "matchedCount": matched,
            "actualCount": len(actual),
            "expectedCount": len(expected),
            "actualTools": names_of(actual),
            "expectedTools": names_of(expected),
        }
        if value == 1:
            reason = _success(self._canonical_mode, len(expected))
        else:
            reason = self._reason(expected, actual, matched)
        return Score(value, reason, metadata=metadata)

    @property
    def _canonical_mode(self) -> TrajectoryMode:
        return CANONICAL_MODES.get(self.mode, self.mode)

    def _with_canonical_modes(self) -> Self:
        return replace(super()._with_canonical_modes(), mode=self._canonical_mode)

    @cached_property
    def _matcher(self) -> CallMatcher:
        return call_matcher(self.name, self.arguments, self.tool_arguments)

    def _reason(self, expected: Calls, actual: Calls, matched: int) -> str:
        paired = call_matching.pairs(expected, actual, self._matcher)
        missing = [call for index, call in enumerate(expected) if index not in paired]
        paired_indexes = set(paired.values())
        surplus = [call for index, call in enumerate(actual) if index not in paired_indexes]
        faults = []
        if missing and self._canonical_mode not in ("subset", "precision"):
            faults.append(f"not made: {_format_calls(missing)}")
        if surplus and self._canonical_mode not in ("superset", "recall"):
            faults.append(f"not expected: {_format_calls(surplus)}")
        if difference := call_matching.explain_nearest(missing, surplus, self._matcher):
            faults.append(difference)
        if not faults:
            faults.append(f"the order differs: made {format_list(names_of(actual))}")
        share = f"{matched} of {pluralize(len(expected), 'expected call')}"
        return f"The calls match {share} ({pluralize(len(actual), 'call')} made); {'; '.join(faults)}."


def strict(expected: Calls, actual: Calls, matcher: CallMatcher) -> tuple[float, int]:
    """Score calls that must be the expected ones in the expected order; returns score and matches."""
    same = call_matching.in_place(expected, actual, matcher)
    return float(same), len(expected) if same else 0


def in_order(expected: Calls, actual: Calls, matcher: CallMatcher) -> tuple[float, int]:
    """Score by the longest common subsequence; calls too many or too few lower it."""
    return _share(call_matching.in_order(expected, actual, matcher), max(len(expected), len(actual)))


def any_order(expected: Calls, actual: Calls, matcher: CallMatcher) -> tuple[float, int]:
    """Score by the pairs that can be made; calls too many or too few lower it."""
    return _share(len(call_matching.pairs(expected, actual, matcher)), max(len(expected), len(actual)))


def superset(expected: Calls, actual: Calls, matcher: CallMatcher) -> tuple[float, int]:
    """Score 1 where every expected call was made."""
    matched = len(call_matching.pairs(expected, actual, matcher))
    return float(matched == len(expected)), matched


def subset(expected: Calls, actual: Calls, matcher: CallMatcher) -> tuple[float, int]:
    """Score 1 where every call made was expected."""
    matched = len(call_matching.pairs(expected, actual, matcher))
    return float(matched == len(actual)), matched


def precision(expected: Calls, actual: Calls, matcher: CallMatcher) -> tuple[float, int]:
    """Score the share of the calls made that were expected."""
    # 0 / 0: nothing made is right only where nothing was expected.
    if not actual:
        return float(not expected), 0
    return _share(len(call_matching.pairs(expected, actual, matcher)), len(actual))


def recall(expected: Calls, actual: Calls, matcher: CallMatcher) -> tuple[float, int]:
    """Score the share of the expected calls that were made."""
    if not expected:
        return float(not actual), 0
    return _share(len(call_matching.pairs(expected, actual, matcher)), len(expected))


def _share(matched: int, total: int) -> tuple[float, int]:
    return (matched / total if total else 1.0), matched


def _success(mode: str, expected: int) -> str:
    if mode == "superset":
        return f"Every one of the {pluralize(expected, 'expected call')} was made."
    if mode == "subset":
        return "Every call made was expected."
    return f"The calls are the {pluralize(expected, 'expected call')}."


def _format_call(call: ToolCall) -> str:
    arguments = arguments_as_written(call)
    return f"{call.name}({quote(dict(arguments), 60) if arguments else ''})"


def _format_calls(calls: list[ToolCall]) -> str:
    text = ", ".join(map(_format_call, calls[:3]))
    return text if len(calls) <= 3 else f"{text} and {len(calls) - 3} more"


_RULES: Final[dict[str, Callable[[Calls, Calls, CallMatcher], tuple[float, int]]]] = {
    "strict": strict,
    "in_order": in_order,
    "any_order": any_order,
    "superset": superset,
    "subset": subset,
    "precision": precision,
    "recall": recall,
}
