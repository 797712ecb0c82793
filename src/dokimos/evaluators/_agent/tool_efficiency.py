"""`ToolEfficiency`: whether an agent repeated its calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from dokimos._core.agent import ToolCall
from dokimos._core.keys import INVALID_ARGUMENTS
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import format_list, pluralize
from dokimos.evaluators._agent.argument_matching import ARGUMENTS_SCHEMA, ArgumentMatching
from dokimos.evaluators._agent.base import CallsEvaluator, call_matcher, read_calls, require_arguments
from dokimos.evaluators._agent.call_matching import CallMatcher


@dataclass(frozen=True, kw_only=True)
class ToolEfficiency(CallsEvaluator):
    """Share of the tool calls that do not repeat an earlier one, by name and arguments; 1 without calls.

    A retry after an error repeats too, so take it as a signal rather than as a gate. Calls that repeat the
    one right before them are listed apart: they are how an agent that goes round in circles looks.

    Example:
        >>> call = {"name": "search", "arguments": {"q": "jacket"}}
        >>> ToolEfficiency().evaluate(EvalTestCase({}, {"toolCalls": [call, call]})).score
        0.5
    """

    arguments: ArgumentMatching = field(default="exact", metadata={"json_schema": ARGUMENTS_SCHEMA})
    """How to tell that arguments are the same; the earlier call is the expected one. See `ToolTrajectory`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._matcher  # validates now, not at the first case

    def score(self, case: EvalTestCase) -> Score:
        calls = read_calls(case, self.tool_calls_key)
        self._require_compared(calls)
        distinct, redundant = self._split(calls)
        consecutive = [later.name for earlier, later in pairwise(calls) if self._repeats(earlier, later)]
        metadata = {
            "totalCalls": len(calls),
            "distinctCalls": len(distinct),
            "redundantCalls": redundant,
            "consecutiveDuplicates": consecutive,
        }
        value = len(distinct) / len(calls) if calls else 1.0
        return Score(value, _reason(len(calls), redundant, consecutive), metadata=metadata)

    @cached_property
    def _matcher(self) -> CallMatcher:
        return call_matcher(self.name, self.arguments, {})

    def _require_compared(self, calls: Sequence[ToolCall]) -> None:
        counts = Counter(call.name for call in calls)
        require_arguments(
            call for call in calls if counts[call.name] > 1 and not self._matcher.is_by_name(call)
        )

    def _split(self, calls: Sequence[ToolCall]) -> tuple[list[ToolCall], list[str]]:
        seen: set[Hashable] = set()
        unkeyed: dict[str, list[ToolCall]] = {}
        distinct: list[ToolCall] = []
        redundant: list[str] = []
        for call in calls:
            key = self._key(call)
            # Calls with a key are found by hash; only those without one are compared one by one.
            others = distinct if key is None else unkeyed.get(call.name, ())
            if key in seen or any(self._repeats(other, call) for other in others):
                redundant.append(call.name)
                continue
            distinct.append(call)
            if key is None:
                unkeyed.setdefault(call.name, []).append(call)
            else:
                seen.add(key)
        return distinct, redundant

    def _key(self, call: ToolCall) -> Hashable:
        """Return what repeated calls have in common; None where a call must be compared with the others."""
        if call.invalid_arguments is not None:
            return INVALID_ARGUMENTS, call.name, call.invalid_arguments
        return self._matcher.key(call)

    def _repeats(self, earlier: ToolCall, later: ToolCall) -> bool:
        if earlier.invalid_arguments is not None or later.invalid_arguments is not None:
            return earlier.name == later.name and earlier.invalid_arguments == later.invalid_arguments
        return self._matcher(earlier, later)


def _reason(total: int, redundant: list[str], consecutive: list[str]) -> str:
    if not total:
        return "There are no tool calls that could repeat."
    if not redundant:
        return f"{pluralize(total, 'tool call')} and none repeats an earlier one."
    text = (
        f"{len(redundant)} of {pluralize(total, 'tool call')} repeat an earlier one: {format_list(redundant)}"
    )
    if not consecutive:
        return f"{text}."
    return (
        f"{text}; {pluralize(len(consecutive), 'call')} right after the call repeated, which may be a loop."
    )
