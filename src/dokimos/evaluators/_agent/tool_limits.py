"""Which tools an agent may call, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import format_list, pluralize, quote
from dokimos.errors import ConfigurationError
from dokimos.evaluators._agent.base import CallsEvaluator, names_of, read_calls
from dokimos.evaluators._setting_checks import check_mapping, check_whole


@dataclass(frozen=True, kw_only=True)
class ForbiddenTools(CallsEvaluator):
    """Passes when the agent called none of the tools that it must not call.

    Example:
        >>> case = EvalTestCase({}, {"toolCalls": [{"name": "delete_account"}]})
        >>> ForbiddenTools(tools=["delete_account"]).evaluate(case).success
        False
    """

    tools: Sequence[str]
    """The names of the tools that must not be called."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.tools, str) or not self.tools or not all(isinstance(t, str) for t in self.tools):
            raise ConfigurationError(
                f"{self.name}: tools must be a list of at least one name, not {quote(self.tools)}."
            )
        object.__setattr__(self, "tools", tuple(self.tools))

    def score(self, case: EvalTestCase) -> Score:
        called = [name for name in names_of(read_calls(case, self.tool_calls_key)) if name in self.tools]
        metadata = {"forbiddenCalls": called}
        if not called:
            return Score(
                1.0,
                f"None of the forbidden tools was called ({format_list(tuple(self.tools))}).",
                metadata=metadata,
            )
        times = f"{pluralize(len(called), 'call')} of forbidden tools"
        return Score(0.0, f"The agent made {times}: {format_list(called)}.", metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class MaxToolCalls(CallsEvaluator):
    """Passes when the agent made no more tool calls than allowed, in total or of single tools.

    Example:
        >>> case = EvalTestCase({}, {"toolCalls": [{"name": "search"}, {"name": "search"}]})
        >>> MaxToolCalls(max=5, per_tool={"search": 1}).evaluate(case).reason
        "There are too many tool calls: 2 calls of 'search', at most 1 allowed."
    """

    max: int | None = None
    """The most calls in total."""
    per_tool: Mapping[str, int] = field(default_factory=dict)
    """The most calls of single tools, by name."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max is None and self.per_tool in ({}, None):
            raise ConfigurationError(f"{self.name}: needs max, per_tool or both.")
        if self.max is not None:
            check_whole(self, "max", self.max, least=0)
        check_mapping(self, "per_tool", self.per_tool, "{'search': 2}")
        for tool, most in self.per_tool.items():
            check_whole(self, f"per_tool[{tool!r}]", most, least=0)

    def score(self, case: EvalTestCase) -> Score:
        counts = Counter(names_of(read_calls(case, self.tool_calls_key)))
        total = counts.total()
        faults = [
            f"{pluralize(counts[tool], 'call')} of {tool!r}, at most {most} allowed"
            for tool, most in self.per_tool.items()
            if counts[tool] > most
        ]
        if self.max is not None and total > self.max:
            faults.insert(0, f"{pluralize(total, 'call')} in total, at most {self.max} allowed")
        metadata = {"totalCalls": total, "callsPerTool": dict(counts)}
        if not faults:
            return Score(1.0, f"{pluralize(total, 'tool call')}, within the limits.", metadata=metadata)
        return Score(0.0, f"There are too many tool calls: {'; '.join(faults)}.", metadata=metadata)
