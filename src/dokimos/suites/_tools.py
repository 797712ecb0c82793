"""Whether an agent called the tools that a turn expects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dokimos._core.agent import ToolCall
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import format_list, pluralize, quote
from dokimos.evaluators._agent.argument_values import ABSENT
from dokimos.evaluators._agent.base import require_arguments
from dokimos.evaluators._base import Evaluator
from dokimos.suites._argument_matchers import (
    build_argument_check,
    describe_expected_value,
    hint_literal,
    may_be_absent,
)
from dokimos.suites._case_plan import EXPECTED_TOOLS
from dokimos.suites._schema import ExpectedTool, ExpectedTools


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """A call that is expected."""

    name: str
    args: Mapping[str, Any]
    least: int
    most: int | None
    exact_name: bool

    @classmethod
    def of(cls, tool: ExpectedTool) -> ExpectedCall:
        return cls(tool.name, tool.args or {}, tool.count, tool.max_count, tool.match == "exact")

    def is_named_like(self, call: ToolCall) -> bool:
        return self.name == call.name if self.exact_name else self.name in call.name

    def fault(self, call: ToolCall) -> str | None:
        """Say which argument of a call is not as expected, None where it is the call wanted.

        Raises:
            EvaluationError: when arguments are expected and those of the call were not recorded.
        """
        if self.args:
            require_arguments((call,))
        for key, expected in self.args.items():
            actual = call.arguments.get(key, ABSENT)
            if actual is ABSENT:
                if may_be_absent(expected):
                    continue
                return f"{key} is missing"
            if not build_argument_check(expected)(actual):
                hint = hint_literal(expected, actual)
                return f"{key} is {quote(actual)}, expected {describe_expected_value(expected)}{hint}"
        return None

    def matches(self, call: ToolCall) -> bool:
        return self.is_named_like(call) and self.fault(call) is None


@dataclass(frozen=True, kw_only=True)
class ToolsCalled(Evaluator):
    """Passes when the agent called the tools expected; other calls and their order do not matter unless told.

    One call may serve several entries. An expected name matches every name that contains it, unless `match`
    is `exact`.
    """

    default_name = EXPECTED_TOOLS

    expected: tuple[ExpectedCall, ...] = ()
    forbidden: tuple[str, ...] = ()
    exact: bool = False
    ordered: bool = False
    threshold: float | None = 1.0

    @classmethod
    def of(cls, expected: ExpectedTools | None, forbidden: list[str]) -> ToolsCalled | None:
        """Return the evaluator of what a turn expects, None where it expects nothing."""
        expected = expected or ExpectedTools()
        if not (expected.tools or expected.exact or forbidden):
            return None
        return cls(
            expected=tuple(ExpectedCall.of(tool) for tool in expected.tools),
            forbidden=tuple(forbidden),
            exact=expected.exact,
            ordered=expected.ordered,
        )

    def score(self, case: EvalTestCase) -> Score:
        calls = case.tool_calls or ()
        faults = [fault for call in self.expected if (fault := _shortfall(call, calls))]
        faults += self._forbidden(calls)
        if self.exact:
            faults += self._surplus(calls)
        # Only of calls that are there: a missing one was reported, and would be out of order as well.
        if self.ordered and not faults:
            faults += self._disorder(calls)
        called = [call.name for call in calls]
        metadata = {"called": called, "expected": [expected.name for expected in self.expected]}
        if faults:
            return Score(0.0, f"{'; '.join(faults)}.", metadata=metadata)
        return Score(
            1.0, f"The tools were called as expected: {format_list(called) or 'none'}.", metadata=metadata
        )

    def _forbidden(self, calls: tuple[ToolCall, ...]) -> list[str]:
        called = [call.name for call in calls if any(name in call.name for name in self.forbidden)]
        return [f"{format_list(called)} must not be called"] if called else []

    def _surplus(self, calls: tuple[ToolCall, ...]) -> list[str]:
        others = [
            call.name for call in calls if not any(expected.matches(call) for expected in self.expected)
        ]
        return [f"{format_list(others)} was called, which is not expected"] if others else []

    def _disorder(self, calls: tuple[ToolCall, ...]) -> list[str]:
        # One iterator for all: each search goes on after the call that the one before it found.
        rest = iter(calls)
        for expected in self.expected:
            if not any(expected.matches(call) for call in rest):
                order = format_list([call.name for call in calls])
                return [f"{expected.name} was not called in its place; order: {order}"]
        return []


def _shortfall(expected: ExpectedCall, calls: tuple[ToolCall, ...]) -> str | None:
    named = [call for call in calls if expected.is_named_like(call)]
    faults = [expected.fault(call) for call in named]
    matching = faults.count(None)
    if expected.most is not None and matching > expected.most:
        return f"{expected.name} was called {pluralize(matching, 'time')}, at most {expected.most} allowed"
    if matching >= expected.least:
        return None
    if not named:
        called = format_list([call.name for call in calls]) or "nothing"
        return f"{expected.name} was not called; called: {called}"
    wrong = next((fault for fault in faults if fault is not None), None)
    times = f"{expected.name} was called as expected {pluralize(matching, 'time')}, not {expected.least}"
    return f"{times}: {wrong}" if wrong else times
