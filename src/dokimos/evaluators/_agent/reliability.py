"""The shared base of checks of tool names and descriptions: rules always, a judge where there is one."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, TypeAlias, cast

from dokimos._core.jsonable import text_form
from dokimos._core.keys import TOOLS
from dokimos._core.means import exact_mean
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import format_list, pluralize
from dokimos._core.tool_definition import ToolDefinition
from dokimos.evaluators._agent.base import TOOLS_SCHEMA, read_tools, require_tools
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._llm.case_sections import section
from dokimos.evaluators._setting_checks import check_text
from dokimos.judges._ask import ask, gather_answers
from dokimos.judges._fencing import fence_rule
from dokimos.judges._protocol import JudgeLike, JudgeLM, as_judge
from dokimos.judges._shapes import AsGiven

SKIPPED: Final = "skipped"

Checks: TypeAlias = Mapping[str, bool | str]
"""What came of each check: True, False or "skipped"."""


@dataclass(frozen=True, kw_only=True)
class ReliabilityEvaluator(Evaluator):
    """The base: the mean over the tools of the share of their checks that passed, of those that ran."""

    method_source = "Checks defined by dokimos."
    judge_calls = "tools; 0 without a judge"

    questions: ClassVar[Mapping[str, str]]
    """What a judge is asked about a tool, by the name of the check; true is always the good answer."""
    shape: ClassVar[type]
    """What it replies: a bool for each of them."""

    looks_for: ClassVar[tuple[str, ...]] = (f"metadata.{TOOLS}",)

    judge: Annotated[JudgeLike | None, AsGiven()] = field(
        default=None, metadata={"json_schema": {"type": ["string", "null"]}}
    )
    """Whom to ask about what rules cannot tell; without one, only the rules are checked."""
    tools: Sequence[Any] | None = field(default=None, metadata={"json_schema": TOOLS_SCHEMA})
    """The tools to check, for every case; see `ToolCallValidity`."""
    tools_key: str = TOOLS
    """The key of the tools in the metadata or the outputs."""
    threshold: float | None = 0.8

    def __post_init__(self) -> None:
        super().__post_init__()
        check_text(self, "tools_key", self.tools_key)
        object.__setattr__(self, "tools", read_tools(self, self.tools))
        if self.judge is not None:
            object.__setattr__(self, "judge", as_judge(self.judge))
        # Rules alone need no event loop, and give the same score each time.
        object.__setattr__(self, "is_async", self.judge is not None)
        object.__setattr__(self, "deterministic", self.judge is None)

    def score(self, case: EvalTestCase) -> Score | Awaitable[Score]:
        """Check each tool; the result must be awaited where there is a judge."""
        tools = require_tools(case, self.tools_key, self.tools)
        if self.judge is not None:
            return self._judge_tools(tools)
        return _build_score(tools, [self.by_rules(tool) for tool in tools])

    def by_rules(self, tool: ToolDefinition) -> Checks:
        """Return every check, those that only a judge can make as skipped."""
        raise NotImplementedError(f"{type(self).__name__} must implement by_rules(tool).")

    async def _judge_tools(self, tools: Sequence[ToolDefinition]) -> Score:
        return _build_score(tools, await gather_answers(map(self._check_tool, tools)))

    async def _check_tool(self, tool: ToolDefinition) -> Checks:
        """Combine the rules and the judge; a check that both make passes only if both agree."""
        checks = dict(self.by_rules(tool))
        answer: Any = await ask(cast("JudgeLM", self.judge), self._prompt(tool), self.shape)
        for name in self.questions:
            checks[name] = checks[name] is not False and getattr(answer, name)
        return checks

    def _prompt(self, tool: ToolDefinition) -> str:
        description = text_form({"description": tool.description, "parameters": tool.input_schema})
        return "\n\n".join(
            (
                "A language model chooses among tools by their names and descriptions. Answer each question "
                "about this tool with true or false:",
                "\n".join(f"- {name}: {question}" for name, question in self.questions.items()),
                fence_rule(),
                f"{section('Name', tool.name)}\n{section('Definition', description)}",
                "Give a brief reason for what is false, then the answers.",
            )
        )


def _build_score(tools: Sequence[ToolDefinition], results: Sequence[Checks]) -> Score:
    recorded: list[dict[str, Any]] = [
        {"toolName": tool.name, "checks": dict(checks)} for tool, checks in zip(tools, results, strict=True)
    ]
    metadata = {"perToolResults": recorded}
    if not tools:
        return Score(1.0, "There are no tools to check.", metadata=metadata)
    value = exact_mean([_share(checks) for checks in results])
    return Score(value, _reason(tools, results), metadata=metadata)


def _share(checks: Checks) -> float:
    # Never empty: some rules always run.
    ran = [outcome for outcome in checks.values() if outcome != SKIPPED]
    return sum(outcome is True for outcome in ran) / len(ran)


def _reason(tools: Sequence[ToolDefinition], results: Sequence[Checks]) -> str:
    faults = [
        f"{tool.name} ({', '.join(name for name, outcome in checks.items() if outcome is False)})"
        for tool, checks in zip(tools, results, strict=True)
        if False in checks.values()
    ]
    if not faults:
        return f"{pluralize(len(tools), 'tool')} and no check failed."
    return (
        f"Checks failed for {len(faults)} of {pluralize(len(tools), 'tool')}: {format_list(faults, limit=3)}."
    )
