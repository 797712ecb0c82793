"""`ToolCorrectness`: compare the tools that an agent used with those expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

from dokimos._core.agent import ToolCall
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import format_list, pluralize
from dokimos.evaluators._agent import call_matching
from dokimos.evaluators._agent.argument_matching import ARGUMENTS_SCHEMA, ArgumentMatching
from dokimos.evaluators._agent.base import (
    ExpectedCallsEvaluator,
    call_matcher,
    f1,
    names_of,
    require_compared_arguments,
)
from dokimos.evaluators._agent.call_matching import BY_NAME, CallMatcher
from dokimos.evaluators._setting_checks import check_option

CorrectnessMatch: TypeAlias = Literal["names_only", "names_and_order", "names_and_args"]
Calls: TypeAlias = Sequence[ToolCall]


@dataclass(frozen=True, kw_only=True)
class ToolCorrectness(ExpectedCallsEvaluator):
    """Compares the tools used with the expected ones: by name, by name and order, or with their arguments.

    "names_only" is the F1 of the two sets of names; "names_and_order" the longest common subsequence of the
    names / the longer length; "names_and_args" the F1 of the calls, each paired with at most one other. 1
    where nothing was called and nothing expected.

    Example:
        >>> call = {"name": "search", "arguments": {"q": "jacket"}}
        >>> expected = {"toolCalls": [{"name": "search"}]}
        >>> case = EvalTestCase({}, {"toolCalls": [call]}, expected_outputs=expected)
        >>> ToolCorrectness().evaluate(case).reason
        'The agent uses the expected tools.'
    """

    match: CorrectnessMatch = "names_only"
    """What to compare: "names_only", "names_and_order" or "names_and_args"."""
    arguments: ArgumentMatching | None = field(default=None, metadata={"json_schema": ARGUMENTS_SCHEMA})
    """How "names_and_args" compares arguments; see `ToolTrajectory`."""
    tool_arguments: Mapping[str, ArgumentMatching] = field(
        default_factory=dict,
        metadata={"json_schema": {"type": "object", "additionalProperties": ARGUMENTS_SCHEMA}},
    )
    """How to compare the arguments of some tools, by name of the tool."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_option(self, "match", self.match, get_args(CorrectnessMatch))
        _ = self._matcher  # validates now, not at the first case

    def score(self, case: EvalTestCase) -> Score:
        expected, actual = self.both(case)
        if self.match == "names_only":
            return _by_names(expected, actual)
        if self.match == "names_and_order":
            return _by_order(expected, actual)
        return self._by_arguments(expected, actual)

    @cached_property
    def _matcher(self) -> CallMatcher:
        return call_matcher(self.name, self.arguments, self.tool_arguments)

    def _by_arguments(self, expected: Calls, actual: Calls) -> Score:
        require_compared_arguments(expected, actual, self._matcher)
        paired = call_matching.pairs(expected, actual, self._matcher)
        missing = [call for index, call in enumerate(expected) if index not in paired]
        matched = set(paired.values())
        redundant = [call for index, call in enumerate(actual) if index not in matched]
        value = f1(len(paired), len(actual), len(expected))
        reason = _reason_of_calls(names_of(missing), names_of(redundant))
        difference = call_matching.explain_nearest(missing, redundant, self._matcher)
        if difference:
            reason = f"{reason.removesuffix('.')}; {difference}."
        return Score(value, reason, metadata={"matchedCount": len(paired)})


def _by_names(expected: Calls, actual: Calls) -> Score:
    expected_names, used = dict.fromkeys(names_of(expected)), dict.fromkeys(names_of(actual))
    correct = [name for name in used if name in expected_names]
    differences = _differences(expected_names, used)
    value = f1(len(correct), len(used), len(expected_names))
    return Score(
        value,
        _reason(differences["missingTools"], differences["redundantTools"]),
        metadata={"correctTools": correct, **differences},
    )


def _by_order(expected: Calls, actual: Calls) -> Score:
    expected_names, used = names_of(expected), names_of(actual)
    length = call_matching.in_order(expected, actual, CallMatcher(BY_NAME))
    longest = max(len(expected_names), len(used))
    differences = _differences(dict.fromkeys(expected_names), dict.fromkeys(used))
    value = length / longest if longest else 1.0
    if value == 1 or any(differences.values()):
        reason = _reason(differences["missingTools"], differences["redundantTools"])
    else:
        reason = (
            f"The order or number of the calls differs: {length} of {pluralize(longest, 'call')} in common "
            f"order; called {format_list(used)}, expected {format_list(expected_names)}."
        )
    return Score(value, reason, metadata={"lcsLength": length, **differences})


def _differences(expected: Mapping[str, Any], used: Mapping[str, Any]) -> dict[str, list[str]]:
    return {
        "redundantTools": [name for name in used if name not in expected],
        "missingTools": [name for name in expected if name not in used],
    }


def _reason(missing: list[str], redundant: list[str]) -> str:
    """Return what is wrong with the names of the tools."""
    parts = []
    if missing:
        parts.append(f"does not call {format_list(missing)}")
    if redundant:
        parts.append(f"calls {format_list(redundant)}, {_are(redundant)} not expected")
    return f"The agent {' and '.join(parts)}." if parts else "The agent uses the expected tools."


def _reason_of_calls(missing: list[str], redundant: list[str]) -> str:
    """Return what is wrong with the calls; a tool that was called with other arguments is named once."""
    different = [name for name in dict.fromkeys(missing) if name in redundant]
    parts = []
    if different:
        parts.append(f"calls {format_list(different)} with other arguments than expected")
    if lacking := [name for name in missing if name not in different]:
        parts.append(f"does not call {format_list(lacking)}")
    if surplus := [name for name in redundant if name not in different]:
        parts.append(f"calls {format_list(surplus)}, {_are(surplus)} not expected with these arguments")
    return f"The agent {' and '.join(parts)}." if parts else "The agent makes the expected calls."


def _are(names: list[str]) -> str:
    return "which is" if len(names) == 1 else "which are"
